import { leaf } from "./command.ts"
import { become } from "./serve.ts"

/** `tollgate bench`: the benchmark, which reads its own arguments. */
export const bench = leaf({
  tells: "Measure the gateway, or any endpoint that speaks OpenAI",
  details: "Every argument is one of the benchmark's own.",
  args: {},
  hands_over: true,
  examples: [
    ["tollgate bench -- --help", "what it can measure, and its flags"],
    [
      'tollgate bench --url http://127.0.0.1:8080/v1 --key "$KEY" --model demo-small --stream --duration 2s',
      "load on a gateway that runs",
    ],
  ],
  run(_given, { env }, words) {
    become("../bench/main.ts", words[0] === "--" ? words.slice(1) : words, env)
  },
})
