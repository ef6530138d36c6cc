import { chatModels } from "./answer.ts"
import { embeddingsModel } from "./embeddings.ts"
import { messagesModel } from "./messages.ts"
import { PROVIDER_KEY } from "./provider.ts"

/** The demo's configuration, in the format of a configuration file: it goes through the same loader. */
export function demoConfig(provider_url: string): string {
  const [small, large] = chatModels
  return `vendors: [anthropic]
upstreams:
  demo-chat:
    family: chat
    base_url: ${provider_url}/v1
    api_key: ${PROVIDER_KEY}
  demo-messages:
    family: messages
    base_url: ${provider_url}
    api_key: ${PROVIDER_KEY}
models:
  - name: ${small}
    family: chat
    operations: [chat, responses]
    upstreams: [{ use: demo-chat }]
    price: { input: "0.25", cached_input: "0.025", output: "2.00" }
    max_output_tokens: 4096
  - name: ${large}
    family: chat
    operations: [chat, responses]
    upstreams: [{ use: demo-chat }]
    price: { input: "1.25", cached_input: "0.125", output: "10.00" }
    max_output_tokens: 16384
    hold_output_tokens: 4096
  - name: ${embeddingsModel}
    family: chat
    operations: [embeddings]
    upstreams: [{ use: demo-chat }]
    price: { input: "0.02" }
  - name: ${messagesModel}
    family: messages
    upstreams: [{ use: demo-messages }]
    price: { input: "3.00", cached_input: "0.30", cache_write: "3.75", output: "15.00" }
    max_output_tokens: 64000
`
}
