import { leaf } from "./command.ts"
import { become } from "./serve.ts"

/** `tollgate bench`: the benchmark, which reads its own arguments. */
export const bench = leaf({
  tells: "Measure the gateway, or any endpoint that speaks OpenAI",
  details: "All arguments are those of `bun run bench`; `tollgate bench -- --help` lists them.",
  args: {},
  hands_over: true,
  examples: [
    ["tollgate bench --quick --only json-1", "one scenario, as a smoke test"],
    [
      'tollgate bench --url http://127.0.0.1:8080/v1 --key "$KEY" --model demo-small --stream --duration 2s',
      "load on a gateway that runs",
    ],
  ],
  run(_given, _screen, words) {
    become("../bench/main.ts", words[0] === "--" ? words.slice(1) : words)
  },
})
