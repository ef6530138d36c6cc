import { Elysia } from "elysia"
import { GatewayError } from "../errors.ts"
import type { Gateway } from "../gateway.ts"
import { messages as operation } from "../operations/messages.ts"
import * as reference from "./docs/messages.ts"
import { modelCall } from "./model-call.ts"

const PATH = "/v1/messages"

/** `POST /v1/messages` and `POST /<vendor>/v1/messages` (D64). */
export function messages(gateway: Gateway) {
  return new Elysia({ name: "messages" })
    .post(PATH, ({ request }) => modelCall(gateway, operation, request), reference.createMessage)
    .post(
      `/:vendor${PATH}`,
      ({ request, path }) => modelCall(gateway, operation, request, vendorOf(gateway, path)),
      reference.createMessageOfVendor,
    )
}

/** The first segment without unescaping it: escaped, it is a different one, as everywhere in a path (D21). */
function vendorOf({ config }: Gateway, path: string): string {
  const vendor = path.slice(1, -PATH.length)
  if (!config.vendors.includes(vendor)) throw new GatewayError("not_found")
  return vendor
}
