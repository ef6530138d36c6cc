import { createServer } from "node:net"

/** A listener that accepts nothing: started as a process of its own, because its event loop stands still. Prints its port. */
const server = createServer()
server.listen(0, "127.0.0.1", () => {
  const address = server.address()
  if (address === null || typeof address === "string") throw new Error("no port")
  process.stdout.write(`${address.port}\n`, () => {
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0)
  })
})
