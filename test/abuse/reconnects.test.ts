import { afterAll, expect, test } from "bun:test"
import { SETTINGS, Server } from "../../src/service/server.ts"
import { Turn } from "../../src/service/turn.ts"

const CLIENTS = 300
/** Twice as many as are answered immediately. */
const IMMEDIATE = 128

let most_waiting = 0
const server = new Server(
  {
    handle({ url }) {
      most_waiting = Math.max(most_waiting, server.pending)
      return url.endsWith("/broken")
        ? Promise.reject(new Error("a bug"))
        : Promise.resolve(new Response("served"))
    },
  },
  { host: "127.0.0.1", port: 0, settings: SETTINGS },
)
afterAll(() => server.close())

interface Client {
  readonly socket: Bun.Socket
  /** All that comes until the server closes the connection. */
  readonly answer: Promise<string>
}

/** A client that has connected and sent nothing: the server accepts it when its request comes. */
async function connect(): Promise<Client> {
  const { promise: answer, resolve } = Promise.withResolvers<string>()
  let received = ""
  const socket = await Bun.connect({
    hostname: "127.0.0.1",
    port: server.port,
    socket: {
      data: (_, bytes) => {
        received += bytes.toString()
      },
      close: () => resolve(received),
    },
  })
  return { socket, answer }
}

/** The answers to requests that are written in one turn of the clients, so the server accepts them all in one of its own. */
async function answersTo(path: string): Promise<string[]> {
  const clients = await Promise.all(Array.from({ length: CLIENTS }, connect))
  for (const { socket } of clients)
    socket.write(`GET ${path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n`)
  return Promise.all(clients.map(({ answer }) => answer))
}

test("D111 most answers of a turn wait for its end, so that no client connects again in it", async () => {
  for (const answer of await answersTo("/")) expect(answer).toEndWith("served")
  expect(most_waiting).toBeGreaterThan(CLIENTS - IMMEDIATE)
})

test("an answer that fails while it waits is a 500", async () => {
  for (const answer of await answersTo("/broken")) expect(answer).toStartWith("HTTP/1.1 500 ")
})

test("D111 answers that wait are sent one by one: the runtime nests those of one promise, until the stack overflows", async () => {
  const turn = new Turn()
  for (let sent = 0; sent < IMMEDIATE; sent++) void turn.send(new Response())
  const order: string[] = []
  const wait = async (name: string) => {
    await turn.send(Promise.resolve(new Response()))
    order.push(name)
    queueMicrotask(() => order.push(`after ${name}`))
  }
  await Promise.all([wait("one"), wait("two")])
  expect(order.slice(0, 3)).toEqual(["one", "after one", "two"])
})

test("D111 refusals of invalid requests wait too: a client that sends many together is cut", async () => {
  const { socket, answer } = await connect()
  socket.write("GET / HTTP/1.1\r\nHost: a,b\r\n\r\n".repeat(CLIENTS))
  const answers = await answer
  expect(answers.split("HTTP/1.1 400 ").length - 1).toBeLessThanOrEqual(IMMEDIATE)
})
