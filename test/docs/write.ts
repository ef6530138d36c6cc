import { writeFileSync } from "node:fs"
import { join } from "node:path"
import { ROOT } from "../support/repository.ts"
import { CONFIGURATION_PAGE } from "./blocks.ts"
import { configurationPage } from "./configuration-keys.ts"
import { ERRORS_PAGE, errorsPage } from "./errors-page.ts"
import type { Document } from "./reference.ts"
import { referenceApp } from "./reference-app.ts"
import { STATUSES, statusesOf } from "./statuses.ts"

/** `bun test/docs/write.ts`: writes the files that are made of the code. */
writeFileSync(ERRORS_PAGE, errorsPage())
writeFileSync(join(ROOT, CONFIGURATION_PAGE), configurationPage())
const reference = await referenceApp().handle(new Request("http://localhost/docs/json"))
const document: Document = JSON.parse(await reference.text())
writeFileSync(STATUSES, statusesOf(document))
process.exit()
