/** The smallest pass-through gateway with Bun: it forwards every request and answer, and reads and charges nothing. */
export function startBare(provider_url: string): Bun.Server<undefined> {
  return Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    idleTimeout: 0,
    maxRequestBodySize: 2 ** 31,
    async fetch(request) {
      const path = request.url.slice(request.url.indexOf("/", "http://".length))
      return fetch(provider_url + path, {
        method: "POST",
        headers: { "content-type": "application/json", "accept-encoding": "identity" },
        body: await request.arrayBuffer(),
        signal: request.signal,
        timeout: false,
      })
    },
  })
}
