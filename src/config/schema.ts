import { type StringOptions, type TProperties, Type } from "@sinclair/typebox"
import { EXPECTED } from "../wire/fault.ts"
import { PROXY, PROXY_EXPECTED } from "./proxy.ts"
import { DURATION, MEMORY_SIZE, SIZE } from "./values.ts"

/** The kinds of values in the schema of the configuration file. */

type Options = StringOptions & { [EXPECTED]?: string }

/** A mapping without unknown keys, optional if all of its keys are. */
export function section<P extends TProperties>(properties: P) {
  return Type.Object(properties, { additionalProperties: false, default: {}, [EXPECTED]: "a mapping" })
}

export function text(options: Options = {}) {
  return Type.String({ [EXPECTED]: "a string", ...options })
}

export function modelName() {
  return text({
    pattern: "^(?! )[^\\x00-\\x1f\\x7f]{1,256}(?<! )$",
    [EXPECTED]:
      "a name of 1 to 256 characters, without control characters and without spaces at its start or end",
  })
}

export function duration(fallback?: string) {
  return text({
    pattern: `(?!0+[a-z])${DURATION.source}`,
    ...(fallback === undefined ? {} : { default: fallback }),
    [EXPECTED]: "a duration above zero, such as 50ms, 15s, 5m or 1h (at most 99h)",
  })
}

export function proxy() {
  return text({ pattern: PROXY.source, [EXPECTED]: PROXY_EXPECTED })
}

export function durationOrNone(fallback: string) {
  return text({
    pattern: DURATION.source,
    default: fallback,
    [EXPECTED]: "a duration, such as 0s, 50ms, 15s, 5m or 1h (at most 99h)",
  })
}

export function size(fallback: string) {
  return text({
    pattern: SIZE.source,
    default: fallback,
    [EXPECTED]: "a size, such as 64KiB, 20MiB or 8MB (at most 999MiB)",
  })
}

/** Without a default: it depends on the machine. */
export function memorySize() {
  return text({
    pattern: MEMORY_SIZE.source,
    [EXPECTED]: "a size, such as 512MiB or 4GiB (at most 999GiB)",
  })
}

export function count(options: { maximum: number; default?: number }) {
  return Type.Integer({
    minimum: 1,
    ...options,
    [EXPECTED]: `an integer from 1 to ${options.maximum}`,
  })
}
