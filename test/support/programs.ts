import { dirname, join } from "node:path"
import { pathToFileURL } from "node:url"

const ROOT = join(import.meta.dir, "../..")
const PROGRAMS = { gateway: "main", worker: "workers/main", cli: "cli/main" } as const

/** How test/run.ts tells the tests where the bundled programs are. */
export const PROGRAMS_VARIABLE = "TOLLGATE_TEST_PROGRAMS"

/** The files of a gateway, of a worker and of the command line: bundled, if the test run has done so. */
export const {
  gateway: GATEWAY_FILE,
  worker: WORKER_FILE,
  cli: CLI_FILE,
} = filesIn(process.env[PROGRAMS_VARIABLE])

/** A gateway as it is in the repository, of many modules. */
export const GATEWAY_SOURCE = filesIn(undefined).gateway

function filesIn(folder: string | undefined) {
  const fileOf = (program: string) =>
    folder === undefined ? join(ROOT, "src", `${program}.ts`) : join(folder, `${program}.js`)
  return {
    gateway: fileOf(PROGRAMS.gateway),
    worker: fileOf(PROGRAMS.worker),
    cli: fileOf(PROGRAMS.cli),
  }
}

/**
 * Bundles the programs into `folder`. A start from 480 sources takes twice the processor time, and a run of the tests makes several
 * hundred. What a module says of its own place stays that of its source. The plugin's page, which nobody gets, is left without its
 * theme, whose libraries every start would load.
 */
export async function bundlePrograms(folder: string): Promise<void> {
  await Bun.build({
    entrypoints: Object.values(PROGRAMS).map((program) => join(ROOT, "src", `${program}.ts`)),
    outdir: folder,
    target: "bun",
    splitting: true,
    plugins: [
      {
        name: "places of the sources",
        setup(build) {
          build.onLoad({ filter: /\/src\/.*\.ts$/ }, async ({ path }) => ({
            contents: placed(await Bun.file(path).text(), path, folder),
            loader: "ts",
          }))
          build.onLoad({ filter: /\/@scalar\/themes\// }, () => ({
            contents: 'export const elysiajsTheme = ""',
            loader: "js",
          }))
        },
      },
    ],
  })
}

function placed(source: string, path: string, folder: string): string {
  const here = JSON.stringify(dirname(path))
  return source
    .replaceAll('join(import.meta.dir, "main.ts")', JSON.stringify(filesIn(folder).worker))
    .replaceAll("import.meta.resolve(", `((name) => Bun.pathToFileURL(Bun.resolveSync(name, ${here})).href)(`)
    .replaceAll("import.meta.dir", here)
    .replaceAll("import.meta.url", JSON.stringify(pathToFileURL(path).href))
}
