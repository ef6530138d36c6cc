import { Type } from "@sinclair/typebox"

/** What a receipt says besides the charge (D6, D87, D90). */
export const callDetails = {
  estimate: Type.Union(
    [
      Type.Object({
        output_bytes: Type.Integer({ minimum: 0, description: "UTF-8 bytes of the output." }),
        prompt_bytes: Type.Integer({
          minimum: 0,
          description: "Bytes of the prompt. Charged only if `usage` has prompt tokens.",
        }),
        bytes_per_token: Type.Number(),
      }),
      Type.Null(),
    ],
    { description: "What estimated tokens were computed from; null if the usage was reported." },
  ),
  unread: Type.Array(Type.String(), {
    description: "Numbers in the provider's usage that Tollgate does not know, and did not charge.",
  }),
  unexplained_tokens: Type.Integer({
    description: "The total that the provider reported less its parts. It was not charged.",
  }),
  provider_cost: Type.Union([Type.String({ pattern: "^\\d+(?:\\.\\d{1,9})?$" }), Type.Null()], {
    description: "What the provider says that the call costs, in USD; null if it does not say.",
  }),
}
