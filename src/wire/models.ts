import { type Static, Type } from "@sinclair/typebox"
import { type OperationName, operationNames } from "./call.ts"
import { choice, nullable } from "./field.ts"

/** The epoch: "unknown" in the messages API. There are no release dates, and a start time would change the list. */
const CREATED_S = 0
const CREATED_AT = "1970-01-01T00:00:00Z"

/** One entry that both SDK families read (D23). */
export const ModelEntry = Type.Object(
  {
    id: Type.String({ description: "The name to send as `model`.", examples: ["gpt-5-mini"] }),
    object: Type.Literal("model"),
    created: Type.Integer({
      description: "Unix time in seconds. Always 0: the date is not known.",
      examples: [CREATED_S],
    }),
    owned_by: Type.String({ examples: ["tollgate"] }),
    type: Type.Literal("model"),
    display_name: Type.String({ examples: ["gpt-5-mini"] }),
    created_at: Type.String({
      format: "date-time",
      description: "The same time as `created`.",
      examples: [CREATED_AT],
    }),
    operations: Type.Array(Type.Unsafe<OperationName>(choice(operationNames)), {
      description: "What the model can be called for.",
      examples: [["chat"]],
    }),
  },
  { description: "A model, in a shape that both SDK families can read." },
)
type ModelEntry = Static<typeof ModelEntry>

/** The one envelope of both SDK families; there is always one page (D23). */
export const ModelList = Type.Object(
  {
    object: Type.Literal("list"),
    data: Type.Array(ModelEntry),
    has_more: Type.Literal(false),
    first_id: nullable(Type.String(), "Null if the list is empty."),
    last_id: nullable(Type.String(), "Null if the list is empty."),
  },
  { description: "The models that this key can use." },
)
export type ModelList = Static<typeof ModelList>

interface ListedModel {
  readonly name: string
  readonly operations: readonly OperationName[]
}

export function modelEntry({ name, operations }: ListedModel): ModelEntry {
  return {
    id: name,
    object: "model",
    created: CREATED_S,
    owned_by: "tollgate",
    type: "model",
    display_name: name,
    created_at: CREATED_AT,
    operations: [...operations],
  }
}

export function modelList(models: readonly ListedModel[]): ModelList {
  const data = models.map(modelEntry)
  return {
    object: "list",
    data,
    has_more: false,
    first_id: data.at(0)?.id ?? null,
    last_id: data.at(-1)?.id ?? null,
  }
}
