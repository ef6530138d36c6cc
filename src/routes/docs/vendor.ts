import { Type } from "@sinclair/typebox"

/** What every route of the messages family says of its headers and its path (D21, D65). */

export const vendorHeaders = {
  "anthropic-version": Type.String({
    format: "date",
    description:
      "The version of the messages API, a calendar date. The header is named after the vendor, `<vendor>-version`. On the path without a vendor, send the header of exactly one configured vendor.",
    examples: ["2023-06-01"],
  }),
  "anthropic-beta": Type.Optional(
    Type.String({
      maxLength: 2048,
      description:
        "Sent to the provider unchanged, like every other header of the vendor. The header is named after the vendor, `<vendor>-beta`.",
    }),
  ),
}

export const vendorParams = Type.Object({
  vendor: Type.String({
    description: "The name of a configured vendor of a messages API.",
    examples: ["anthropic"],
  }),
})
