import { type Static, Type } from "@sinclair/typebox"
import { startBare } from "./bare.ts"
import { Books, BooksQuestion } from "./books.ts"
import { checked } from "./checked.ts"
import type { Role, Servant } from "./child.ts"
import { Job } from "./job.ts"
import { load } from "./load.ts"
import { startProvider } from "./provider.ts"
import { Recipe } from "./recipe.ts"
import { StartTollgate, TollgateKeeper } from "./tollgate.ts"

export const StartProvider = Type.Object({ recipes: Type.Record(Type.String(), Recipe) })
export const StartBare = Type.Object({ provider_url: Type.String() })
export const Port = Type.Object({ port: Type.Integer() })

/** What the process of each role does. */
export const servants: Readonly<Record<Role, () => Servant>> = {
  provider: () => serving((asked) => startProvider(checked(StartProvider, asked).recipes)),
  bare: () => serving((asked) => startBare(checked(StartBare, asked).provider_url)),
  load: () => ({ answer: (asked) => load(checked(Job, asked)), end: async () => {} }),
  tollgate: keeping,
  books: accounting,
}

/** The first question starts the server; the answer is its port. */
function serving(start: (asked: unknown) => Bun.Server<undefined>): Servant {
  let server: Bun.Server<undefined> | null = null
  return {
    async answer(asked): Promise<Static<typeof Port>> {
      server ??= start(asked)
      return { port: server.port ?? 0 }
    },
    async end() {
      await server?.stop(true)
    },
  }
}

function keeping(): Servant {
  const keeper = new TollgateKeeper()
  return {
    answer: (asked) => keeper.start(checked(StartTollgate, asked)),
    end: () => keeper.end(),
  }
}

function accounting(): Servant {
  let opened: Promise<Books> | null = null
  return {
    async answer(asked) {
      opened ??= Books.open()
      return (await opened).answer(checked(BooksQuestion, asked))
    },
    async end() {
      await (await opened)?.end()
    },
  }
}
