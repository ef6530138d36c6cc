import { expect, test } from "bun:test"
import { lookup } from "node:dns/promises"
import { hostname } from "node:os"
import { faultOfUrl, post } from "../../src/events/post.ts"
import { isPrivate } from "../../src/events/private-address.ts"
import { makeSecret, signedHeaders } from "../../src/events/webhook.ts"
import { untilIs } from "../support/until.ts"

/** D96: messages of Standard Webhooks, to public addresses only. */

const never = new AbortController().signal

test("D96: signatures are those of Standard Webhooks, with its own example", () => {
  const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
  const message = { id: "msg_p5jXN8AQM9LWM0D4loKWxJek", body: '{"test": 2432232314}' }
  const headers = signedHeaders(message, [secret], new Date(1_614_265_330_000))
  expect(headers).toEqual({
    "webhook-id": message.id,
    "webhook-timestamp": "1614265330",
    "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
  })
  const both = signedHeaders(message, [makeSecret(), secret], new Date(1_614_265_330_000))
  const [, second] = both["webhook-signature"]?.split(" ") ?? []
  expect(second).toBe(headers["webhook-signature"])
  expect(Buffer.from(makeSecret().slice("whsec_".length), "base64")).toHaveLength(32)
})

const PRIVATE = [
  ...["0.0.0.0", "0.1.2.3", "10.0.0.1", "100.64.0.1", "100.127.255.255", "127.0.0.1", "127.8.8.8"],
  ...["169.254.169.254", "172.16.0.1", "172.31.255.255", "192.0.0.1", "192.168.1.1", "198.18.0.1"],
  ...["198.19.255.255", "224.0.0.1", "239.1.1.1", "240.0.0.1", "255.255.255.255"],
  ...["::", "::1", "[::1]", "fe80::1", "fe80::1%eth0", "fc00::1", "fd12:3456::1", "ff02::1", "fec0::1"],
  ...["::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:a9fe:a9fe", "0:0:0:0:0:ffff:7f00:1", "::127.0.0.1"],
  ...["64:ff9b::7f00:1", "2001:db8::1", "2001::1", "2002:7f00:1::", "3fff::1", "no-address", ""],
]
const PUBLIC = [
  ...["1.1.1.1", "8.8.8.8", "9.255.255.255", "11.0.0.0", "100.63.255.255", "100.128.0.0", "126.255.255.255"],
  ...["172.15.255.255", "172.32.0.0", "192.167.255.255", "192.169.0.0", "223.255.255.255"],
  ...["2606:4700:4700::1111", "2001:4860:4860::8888", "::ffff:8.8.8.8", "2a00:1450:4001::1"],
]
test.each(PRIVATE)("D96: %s is private", (address) => expect(isPrivate(address)).toBeTrue())
test.each(PUBLIC)("D96: %s is public", (address) => expect(isPrivate(address)).toBeFalse())

test.each([
  ["https://hooks.example.com/tollgate?x=1", false, null],
  ["https://hooks.example.com:8443/", false, null],
  ["http://hooks.example.com/", false, "an https URL; http needs allow_private"],
  ["http://10.0.0.5/hook", true, null],
  ["ftp://hooks.example.com/", true, "an https URL; http needs allow_private"],
  ["https://user:secret@hooks.example.com/", true, "a URL without a user and a password"],
  ["hooks.example.com", true, "a URL"],
  ...[
    ..."127.0.0.1 0x7f.1 2130706433 017700000001 localhost a.localhost [::1] 169.254.169.254".split(" "),
  ].map((host): [string, boolean, string] => [
    `https://${host}/`,
    false,
    "a public address; a private one needs allow_private",
  ]),
])("D96: the address %s with allow_private %p", (url, allow_private, fault) => {
  expect(faultOfUrl(url, allow_private)).toBe(fault)
})

const send = (url: string, allow_private: boolean, reads = false, signal = never) =>
  post({ url, headers: {}, body: "{}" }, { allow_private, reads }, signal)

test("D96: a name that leads to a private address is not connected to", async () => {
  const { address } = await lookup(hostname())
  expect(isPrivate(address)).toBeTrue()
  let connected = false
  const server = Bun.listen({
    hostname: "0.0.0.0",
    port: 0,
    socket: {
      open() {
        connected = true
      },
      data() {},
    },
  })
  const url = `https://${hostname()}:${server.port}/`
  expect(await send(url, false)).toEqual({ reason: "the name has a private address" })
  expect(connected).toBeFalse()
  const given_up = new AbortController()
  const sent = send(url, true, false, given_up.signal)
  await untilIs(() => connected, true)
  given_up.abort()
  expect(await sent).toHaveProperty("reason")
  server.stop(true)
})

test("D96: a request that cannot be sent is a failure of the delivery", async () => {
  const request = { url: "http://127.0.0.1:9/", headers: { authorization: "Bearer \u2026" }, body: "" }
  expect(await post(request, { allow_private: true, reads: false }, never)).toEqual({
    reason: "unreachable (ERR_INVALID_CHAR)",
  })
})

test("D96: a receiver that wants another protocol has not taken the event", async () => {
  const server = Bun.listen({
    hostname: "127.0.0.1",
    port: 0,
    socket: {
      data: (socket) => {
        socket.write("HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n")
      },
    },
  })
  expect(await send(`http://127.0.0.1:${server.port}/`, true)).toEqual({ status: 101, text: "" })
  server.stop(true)
})

test.each(["100 Continue", "103 Early Hints"])(
  "D96: a receiver that sends %s again and again is unreachable, and is not read on",
  async (status) => {
    const server = Bun.listen({
      hostname: "127.0.0.1",
      port: 0,
      socket: {
        data: (socket) => {
          socket.write(`HTTP/1.1 ${status}\r\n\r\n`.repeat(17))
        },
      },
    })
    const answer = await send(`http://127.0.0.1:${server.port}/`, true)
    expect(answer).toEqual({ reason: "unreachable (TooManyInformational)" })
    server.stop(true)
  },
)

test("D96: redirects are not followed, and the body of an answer is not read", async () => {
  const asked: string[] = []
  const server = Bun.serve({
    port: 0,
    fetch(request): Response {
      const { pathname } = new URL(request.url)
      asked.push(pathname)
      if (pathname === "/moved") return new Response(null, { status: 307, headers: { location: "/taken" } })
      const endless = new ReadableStream({ pull: (body) => body.enqueue(new Uint8Array(65_536)) })
      return new Response(endless, { status: pathname === "/refused" ? 422 : 200 })
    },
  })
  const ask = (path: string, reads = false) => send(`${server.url}${path}`, true, reads)
  expect(await ask("moved")).toEqual({ status: 307, text: "" })
  expect(await ask("taken")).toEqual({ status: 200, text: "" })
  expect(await ask("taken", true)).toEqual({ status: 200, text: "" })
  expect(await ask("refused")).toEqual({ status: 422, text: "" })
  const read = await ask("refused", true)
  expect("text" in read && read.text.length > 10_000).toBeTrue()
  expect(asked).toEqual(["/moved", "/taken", "/taken", "/refused", "/refused"])
  await server.stop(true)
  expect(await ask("taken")).toEqual({ reason: "unreachable (ECONNREFUSED)" })
})
