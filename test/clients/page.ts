import { join } from "node:path"

/** docs/clients.md: its examples are run, and what stands between its two marks is what the tests saw. */

const PATH = join(import.meta.dir, "../../docs/clients.md")
const BEGIN = "<!-- Written by test/clients from here: "
const END = "<!-- Written by test/clients until here. -->"

/** Set to anything to write what was seen into the page, in place of comparing. */
export const WRITE_VARIABLE = "TOLLGATE_WRITE_CLIENTS_PAGE"
const COMMAND = `${WRITE_VARIABLE}=1 bun run test test/clients`

export async function readPage(): Promise<string> {
  return await Bun.file(PATH).text()
}

/** The page with `seen` between its marks. */
export function pageWith(page: string, seen: string): string {
  const begin = page.indexOf(BEGIN)
  const end = page.indexOf(END)
  if (begin < 0 || end < begin) throw new Error("docs/clients.md has lost its marks")
  return `${page.slice(0, begin)}${BEGIN}${COMMAND} -->\n\n${seen}\n\n${page.slice(end)}`
}

export async function writePage(page: string): Promise<void> {
  await Bun.write(PATH, page)
}
