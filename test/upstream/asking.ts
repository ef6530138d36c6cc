import { postDirectly } from "../../src/upstream/http/direct.ts"
import { postByFetch } from "../../src/upstream/http/fetch.ts"
import { codeOf } from "../../src/upstream/http/transport.ts"
import { anUpstream } from "../support/upstream.ts"

/** Asks an upstream by both transports, in a process whose environment a test chose. Prints the statuses or why there is none. */

const { base_url, ca } = await Bun.stdin.json()
const place = anUpstream({ base_url, tls: ca === null ? null : { ca, cert: null, key: null } })
const answered = async (post: typeof postDirectly) => {
  try {
    return (await post(place, "/x", "m", {}, ["{}"]).head).status
  } catch (error) {
    return codeOf(error)
  }
}
console.log(JSON.stringify({ direct: await answered(postDirectly), fetch: await answered(postByFetch) }))
process.exit()
