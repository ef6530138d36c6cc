import type { Config } from "../config/config.ts"
import type { UpstreamBody } from "../wire/upstreams.ts"
import type { Health } from "./health.ts"

/** How the configured upstreams do, in the order of the file, as one process finds them (D51). */
export function standings(
  { upstreams, models }: Pick<Config, "upstreams" | "models">,
  health: Health,
  worker: number | null,
): readonly UpstreamBody[] {
  return upstreams.map(({ name, family }) => ({
    name,
    family,
    models: models
      .filter(({ routes }) => routes.some(({ upstream }) => upstream.name === name))
      .map((model) => model.name),
    worker,
    ...health.standing(name),
  }))
}
