import { writeFileSync } from "node:fs"
import { ERRORS_PAGE, errorsPage } from "./errors-page.ts"

/** `bun test/docs/write.ts`: writes the pages below docs/ that are made of the code. */
writeFileSync(ERRORS_PAGE, errorsPage())
