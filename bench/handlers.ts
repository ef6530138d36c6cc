import { type Static, Type } from "@sinclair/typebox"
import { AnswerSpec } from "./answer-spec.ts"
import { startBare } from "./bare.ts"
import { checked } from "./checked.ts"
import type { Handler, Role } from "./child.ts"
import { Job } from "./job.ts"
import { LedgerLoad, LedgerQuestion } from "./ledger-load.ts"
import { load } from "./load.ts"
import { OwnPostgres } from "./own-postgres.ts"
import { startProvider } from "./provider.ts"
import { StartTollgate, TollgateProcess } from "./tollgate.ts"

export const StartProvider = Type.Object({ specs: Type.Record(Type.String(), AnswerSpec) })
export const StartBare = Type.Object({ provider_url: Type.String() })
export const Port = Type.Object({ port: Type.Integer() })

export const handlers: Readonly<Record<Role, () => Handler>> = {
  provider: () => serving((asked) => startProvider(checked(StartProvider, asked).specs)),
  bare: () => serving((asked) => startBare(checked(StartBare, asked).provider_url)),
  load: () => ({ answer: (asked) => load(checked(Job, asked)), end: async () => {} }),
  tollgate: tollgateHandler,
  ledger: ledgerHandler,
}

/** The first question starts the server; the answer is its port. */
function serving(start: (asked: unknown) => Bun.Server<undefined>): Handler {
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

function tollgateHandler(): Handler {
  const tollgate = new TollgateProcess()
  return {
    answer: (asked) => tollgate.start(checked(StartTollgate, asked)),
    end: () => tollgate.end(),
  }
}

/** The first question opens the ledger. */
function ledgerHandler(): Handler {
  const owns: OwnPostgres[] = []
  let opened: Promise<LedgerLoad> | null = null
  const open = async (shards: number) => {
    while (owns.length < shards) {
      const own = new OwnPostgres()
      owns.push(own)
      await own.start()
    }
    return LedgerLoad.open(owns)
  }
  return {
    async answer(asked) {
      const question = checked(LedgerQuestion, asked)
      opened ??= open(question.what === "pairs" ? question.shards : 1)
      return (await opened).answer(question)
    },
    async end() {
      const load = await opened?.catch(() => null)
      await load?.close()
      await Promise.all(owns.map((own) => own.stop()))
    },
  }
}
