/** The part of a pino logger that the books use. Never with keys, prompts, statements or values in it. */
export interface Log {
  info(fields: object, message: string): void
  warn(fields: object, message: string): void
  error(fields: object, message: string): void
}
