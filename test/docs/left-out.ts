import { type Block, blocksOf } from "./blocks.ts"

/** Blocks of commands that no test runs as they stand, or only on some machines, by a word of theirs. */
export const LEFT_OUT: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  "docs/clients.md": {
    "npx codex": "needs Codex, which `bun run agents` installs; then test/clients/page.test.ts runs it",
  },
  "docs/load-testing.md": Object.fromEntries(
    ["hey", "ab", "wrk", "oha", "vegeta attack", "k6 run", "guidellm run", "aiperf profile"].map((tool) => [
      `${tool} `,
      "needs the tool; where it is installed, test/docs/load-testing.test.ts runs it",
    ]),
  ),
  "docs/deploying.md": {
    "systemctl daemon-reload":
      "changes this machine; test/docs/deploying.test.ts compares its paths with the unit's",
    "docker run":
      "needs an engine; test/docker builds and runs the image without one, and test/docs/deploying.test.ts checks the flags",
    "docker compose": "needs an engine; test/docs/deploying.test.ts checks the file",
    "kubectl apply": "needs a cluster; test/docs/deploying.test.ts checks the file",
    "helm upgrade": "needs a cluster; test/docs/helm.test.ts renders the chart with the values above it",
    "terraform -chdir": "needs Terraform; where it is installed, test/docs/terraform.test.ts runs it",
  },
}

const PROGRAMS = ["sh", "js", "ts", "py"]

/** The commands and programs of a page, in its order: all of them run in the test of the page. */
export function blocksToRun(page: string): readonly Block[] {
  const words = Object.keys(LEFT_OUT[page] ?? {})
  return programsOf(page).filter(({ text }) => !words.some((word) => text.includes(word)))
}

/** All commands and programs of a page. */
export function programsOf(page: string): readonly Block[] {
  return blocksOf(page).filter(({ language }) => PROGRAMS.includes(language))
}
