import { CliError } from "./cli-error.ts"
import { leaf } from "./command.ts"
import { become } from "./serve.ts"

const PROGRAM = "../../bench/main.ts"
/** What only the benchmark needs: a development dependency, so an install for production leaves it out. */
const PACKAGE = "hdr-histogram-js"

/** `tollgate bench`: the benchmark, which parses its own arguments. */
export const bench = leaf({
  summary: "Benchmark the gateway or any OpenAI-compatible endpoint",
  details:
    "All arguments are passed to the benchmark. Needs a checkout of the repository: the image does not contain it.",
  args: {},
  passes_arguments: true,
  examples: [
    ["tollgate bench -- --help", "what it measures, and its flags"],
    [
      'tollgate bench --url http://127.0.0.1:8080/v1 --key "$KEY" --model demo-small --stream --duration 2s',
      "load on a running gateway",
    ],
  ],
  run(_given, { env }, words) {
    if (!isInstalled()) {
      throw new CliError(
        "The benchmark is not installed here. Run `bun run bench` in a checkout of the repository.",
      )
    }
    // Its bare pass-through calls `fetch`, which Bun limits to 256 requests at once unless this is set before it starts.
    const unlimited = { ...env, BUN_CONFIG_MAX_HTTP_REQUESTS: "65535" }
    become(PROGRAM, words[0] === "--" ? words.slice(1) : words, unlimited)
  },
})

function isInstalled(): boolean {
  try {
    return [PROGRAM, PACKAGE].every((name) => Bun.resolveSync(name, import.meta.dir) !== "")
  } catch {
    return false
  }
}
