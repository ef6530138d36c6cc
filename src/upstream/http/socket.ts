import type { Socket } from "bun"

/** The receiver of a socket's events: an `Attempt`, then a `Connection`. Shared handlers save memory. */
export interface SocketOwner {
  /** TCP is connected; TLS is not yet. */
  onStart(socket: Socket<SocketOwner>): void
  onOpen(socket: Socket<SocketOwner>): void
  onData(bytes: Uint8Array): void
  onDrain(): void
  onEnd(): void
  onClose(error?: Error): void
}

/** The connection was closed: before it was open, or in the middle of an answer. */
export class ConnectionClosed extends Error {
  override readonly name = "ConnectionClosed"
  readonly code = "ECONNRESET"
}

const common_events = {
  binaryType: "uint8array" as const,
  data: ({ data }: Socket<SocketOwner>, bytes: Uint8Array) => data.onData(bytes),
  drain: ({ data }: Socket<SocketOwner>) => data.onDrain(),
  end: ({ data }: Socket<SocketOwner>) => data.onEnd(),
  error: ({ data }: Socket<SocketOwner>, error: Error) => data.onClose(error),
  close: ({ data }: Socket<SocketOwner>, error?: Error) => data.onClose(error),
}

export const plain_events = {
  ...common_events,
  open: (socket: Socket<SocketOwner>) => socket.data.onOpen(socket),
}

export const secured_events = {
  ...common_events,
  open: (socket: Socket<SocketOwner>) => socket.data.onStart(socket),
  handshake: (socket: Socket<SocketOwner>, success: boolean, error: Error | null) => {
    if (success && !error) return socket.data.onOpen(socket)
    socket.data.onClose(error ?? new ConnectionClosed("the TLS handshake failed"))
    socket.terminate()
  },
}
