/** What a provider says instead of an answer. */
export class Refusal extends Error {
  override readonly name = "Refusal"
  readonly status: number
  readonly type: string
  readonly code: string | null
  readonly param: string | null

  constructor(
    status: number,
    type: string,
    message: string,
    { code = null, param = null }: { code?: string | null; param?: string | null } = {},
  ) {
    super(message)
    this.status = status
    this.type = type
    this.code = code
    this.param = param
  }
}
