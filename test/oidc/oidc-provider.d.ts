/** What the tests use of the package, which has no types. */
declare module "oidc-provider" {
  import type { Server } from "node:http"

  export default class Provider {
    constructor(issuer: string, configuration: object)
    listen(port: number, host: string, listening: () => void): Server
  }
}
