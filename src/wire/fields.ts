/**
 * The meaning of every known field of a request for money (D88). This is the only list of field names: the spelling guard (D18),
 * the price guard (D61), the hold (D12), what is plausible (D1) and open prompts (D89) follow from it.
 *
 * A field that is not here passes, and counts as text (D18).
 */

export type Means =
  /** No part of the prompt, and no effect on a price. */
  | "none"
  /** Text of the prompt: its bytes. */
  | "text"
  /** Data of the caller, such as a schema: its bytes. The names in it are never read. */
  | "opaque"
  /** Messages, items or parts, as a list or one of them. */
  | "parts"
  /** Parts that the answer may repeat. Those that it does not repeat are billed as output. */
  | "prediction"
  /** Input of embeddings: texts, or lists of tokens. */
  | "embedded"
  /** Tools, as a list or one of them: see `TOOLS` and `TOOLS_TOKENS`. */
  | "tools"
  /** Plugins: see `PLUGINS`. */
  | "plugins"
  /** An object with fields of its own; the argument is their scope. */
  | "object"
  /** A picture, a sound or a file, inline or by reference. The argument is its kind; without one, the type of the part says it. */
  | "media"
  /** The source of a medium: an object, an address, or a label. */
  | "source"
  /** Base64 data of a medium. */
  | "data"
  /** The address or the id of a medium, in a part whose type says that it is one. */
  | "address"
  /** Makes media larger. */
  | "media_size"
  /** A part of the prompt that only the provider has. */
  | "hidden"
  /** Makes the provider run something unseen, which repeats the prompt (D89). */
  | "provider_work"
  /** Asks for what needs a price; the argument is its name in `SWITCHES`. */
  | "price"
  /** The service tier (D70). */
  | "tier"
  /** Kinds of output, as a list. */
  | "modalities"
  /** The time that a cache keeps what is written to it. */
  | "ttl"
  /** Bounds the output of a choice. */
  | "limit"
  /** The same by a name that some servers read in its place: it raises the hold, and never lowers it. */
  | "other_limit"
  | "choices"
  /** Bounds the rounds of the provider's tools. */
  | "rounds"
  | "reasoning"
  /**
   * Reasoning beyond the limit of the output, which does not bound it at some providers: so many tokens, or any number (D12). `switch`: false
   * turns it off.
   */
  | "thinking"
  /** A vendor's betas, as in its header: see `BETAS`. */
  | "betas"
  /** No price can say what it costs (D61). */
  | "refused"
  /** Another model, provider or payer: refused for every model (D19). The argument is the reason. */
  | "route"
  /** For the gateway. */
  | "gateway"
  /** Removed before a token count is sent (spec 4.3 rule 3). */
  | "uncounted"

/**
 * Names, what they mean, an argument, and values that enable nothing: `off`, `clear_*` for those that begin so, or `mode=off`
 * for an object. null, false and [] never enable anything.
 */
export type FieldRow = readonly [names: string, means: Means, argument?: string, off?: string]

const ONE_MODEL = "a call uses the model in `model` only"
const OTHER_PRICE = "it can change what the provider charges"

/** The known fields of each scope. `all` and the scopes of an operation are the top of a request. */
export const FIELDS = {
  all: [
    ["model stream", "gateway"],
    ["messages system input documents", "parts"],
    ["prediction", "prediction"],
    ["instructions guidelines tool_prompt", "text"],
    ["functions tool_choice function_call response_format text output_format output_config", "opaque"],
    ["structured_outputs guided_json guided_regex guided_choice guided_grammar regex ebnf", "opaque"],
    ["container image ocr_options translation_options asr_options input_ids", "opaque"],
    ["tools", "tools"],
    ["plugins", "plugins"],
    ["extra_body google", "object", "all"],
    ["chat_template_kwargs", "object", "kwargs"],
    ["context_management", "object", "context_management"],
    ["cache_control caching prompt_cache_options", "object", "cache"],

    ["max_tokens max_completion_tokens max_output_tokens n_predict", "other_limit"],
    ["max_turns max_steps min_tokens", "none"],
    ["temperature top_p top_k top_a min_p seed stop stop_sequences stop_token_ids bad_words", "none"],
    ["frequency_penalty presence_penalty repetition_penalty logit_bias logprobs top_logprobs", "none"],
    ["prompt_logprobs ignore_eos echo truncate_prompt_tokens truncation verbosity transforms", "none"],
    ["store store_messages metadata user user_profile_id safety_identifier session_id trace debug", "none"],
    ["prompt_cache_key prompt_cache_retention cache_salt priority request_id diagnostics", "none"],
    ["parallel_tool_calls include stream_options access_programs prompt_mode safe_prompt", "none"],
    ["moderation safety_settings citation_options include_domains exclude_domains search_mode", "none"],
    ["disable_search enable_search_classifier num_search_results return_images return_citations", "none"],
    ["return_related_questions num_images dimensions encoding_format comparison_response_id", "none"],
    ["stop_server_tools_when safeguards separate_reasoning include_reasoning", "none"],

    ["service_tier", "tier", "", "auto"],
    ["speed", "price", "speed", "standard"],
    ["inference_geo", "price", "inference_geo", "global"],
    ["modalities", "modalities"],
    ["audio", "price", "audio_output"],
    ["image_config", "price", "image_output"],
    ["web_search_options enable_search search_options web_search", "price", "web_search"],
    ["search_parameters", "price", "web_search", "mode=off"],
    ["enable_code_interpreter", "price", "tool_run:code_interpreter"],
    ["mcp_servers data_sources compaction skills profile agent_profile", "provider_work"],
    ["conversation previous_response_id prompt file_ids tool_resources cached_content", "hidden"],
    ["file_workspace_id thread_id use_threads session_params prompt_id", "hidden"],
    ["thread", "hidden", "", "type=create"],
    ["max_tool_calls", "rounds"],

    ["reasoning_effort", "reasoning", "", "none"],
    ["reasoning", "object", "reasoning", "effort=none enabled=false"],
    ["thinking", "reasoning", "", "type=disabled"],
    ["enable_thinking", "thinking", "switch", "0"],
    ["thinking_budget", "thinking", "", "0"],
    ["thinking_token_budget thinking_config", "reasoning", "", "0"],

    [
      "vl_high_resolution_images mm_processor_kwargs media_io_kwargs images_config media_resolution",
      "media_size",
    ],
    ["max_dynamic_patch min_dynamic_patch use_audio_in_video min_pixels max_pixels fps", "media_size"],

    ["anthropic_beta betas", "betas"],
    ["n n_cmpl best_of agent_count", "refused", "", "1"],
    [
      "use_beam_search background deferred background_options multi_agent guardrails compound_custom",
      "refused",
    ],
    ["billing_policy fallback_credit_token chat_template kv_transfer_params ec_transfer_params", "refused"],
    ["vllm_xargs custom_logit_processor custom_params bootstrap_host bootstrap_port", "refused"],
    ["bootstrap_room data_parallel_rank", "refused"],
    ["models fallbacks context_window_fallbacks content_policy_fallbacks", "route", ONE_MODEL],
    ["context_window_fallback_dict safety_model", "route", ONE_MODEL],
    ["provider route preset lora lora_path", "route", OTHER_PRICE],
    ["api_base base_url api_key user_config", "route", OTHER_PRICE],
    ["num_retries", "route", OTHER_PRICE, "0"],
    ["additional_drop_params headers extra_headers provider_specific_header", "route", OTHER_PRICE],
  ],
  chat: [
    ["max_tokens max_completion_tokens", "limit"],
    ["n", "choices"],
    ["usage", "object", "usage"],
    ["stream_options", "object", "stream_options"],
  ],
  responses: [["max_output_tokens", "limit"]],
  messages: [["max_tokens", "limit"]],
  embeddings: [
    ["input", "embedded"],
    ["usage", "object", "usage"],
  ],
  /** A token count is free (D22). */
  count: [["stream temperature top_p top_k stop stop_sequences", "uncounted"]],

  usage: [["include", "gateway"]],
  stream_options: [["include_usage", "gateway"]],
  kwargs: [["enable_thinking thinking", "reasoning"]],
  /** `edits` of messages; of responses it is itself a list. */
  context_management: [
    ["edits", "object", "context_management"],
    ["type", "provider_work", "", "clear_*"],
    ["trigger keep clear_at_least exclude_tools clear_tool_inputs compact_threshold instructions", "opaque"],
  ],
  reasoning: [
    ["effort summary context max_tokens enabled exclude generate_summary", "reasoning"],
    ["mode", "refused", "", "standard"],
  ],
  cache: [
    ["ttl", "ttl"],
    ["type mode prewarm scope", "none"],
  ],

  /** A message, an item or a part, at any depth: a provider could read one as another. */
  part: [
    ["type role name text refusal thinking status phase title context signature format filename", "text"],
    ["call_id tool_call_id tool_use_id is_error encrypted_content reasoning_content summary", "text"],
    ["input arguments tool_calls function_call citations annotations action logprobs metadata", "opaque"],
    ["reasoning reasoning_details transcript partial prefix obfuscation queries", "opaque"],
    ["content output caller", "parts"],
    ["tools tool", "tools"],
    ["cache_control caching prompt_cache_breakpoint", "object", "cache"],
    ["image image_url image_file computer_screenshot", "media", "image"],
    ["audio audio_url input_audio", "media", "audio"],
    ["file file_url file_uri file_data input_file document document_url", "media", "file"],
    ["video video_url input_video", "media", "file"],
    ["file_id", "media"],
    ["source", "source"],
    ["data b64_json result", "data"],
    ["url uri uuid", "address"],
    [
      "detail fps min_pixels max_pixels max_dynamic_patch min_dynamic_patch resolution",
      "media_size",
      "",
      "auto low medium high",
    ],
    ["id", "text"],
  ],
  /** An object with the data of a medium, or its address. */
  source: [
    ["type media_type mime_type format filename name title language", "text"],
    ["data file_data b64_json bytes", "data"],
    ["url uri file_url file_uri image_url file_id id", "address"],
    ["detail", "media_size", "", "auto low medium high"],
    ["content", "parts"],
  ],
  tool: [
    ["type name description title", "text"],
    ["input_schema parameters custom strict format input_examples configs default_config", "opaque"],
    ["function_declarations functionDeclarations defer_loading eager_input_streaming", "opaque"],
    ["function", "object", "function"],
    ["cache_control caching", "object", "cache"],
    ["tools definition", "tools"],
    ["max_uses environment execution", "opaque"],
  ],
  function: [
    ["name description parameters strict", "opaque"],
    ["cache_control", "object", "cache"],
  ],
  plugin: [["id", "text"]],
} as const satisfies Record<string, readonly FieldRow[]>

export type FieldScope = keyof typeof FIELDS

/** The service tier of a model's own price, and its names: in answers, and in requests. */
export const OWN_TIER = "default"
export const OWN_TIERS_SERVED: ReadonlySet<unknown> = new Set([OWN_TIER, "standard", "on_demand"])
export const OWN_TIERS: ReadonlySet<unknown> = new Set([...OWN_TIERS_SERVED, "standard_only"])
/** Values of a field that have a meaning of their own: 5 minutes is what every model charges as `cache_write`. */
export const TTLS: Readonly<Record<string, string>> = { "5m": "", "30m": "", "1h": "cache_write_1h" }
export const MODALITIES: Readonly<Record<string, string>> = {
  text: "",
  audio: "audio_output",
  image: "image_output",
}

export interface Switch {
  /** For the error: the model has no price for … */
  readonly what: string
  /** The price that it needs: `NONE` if no model can have it, null if it needs none. */
  readonly price: string | null
  /** Set if only the context bounds the prompt: read in every round of tools, or once (D12, D89). */
  readonly opens?: "rounds" | "once"
  /** Unless the model's `part_tokens` bounds it. */
  readonly unless_part_tokens?: true
}

/** A price that no model can have. */
export const NONE = ""
export const TOOL_RUN = "tool_run:"

/** Things that a request can ask for besides plain tokens, and their needs (D61, D89). */
export const SWITCHES = {
  service_tier: { what: "this service tier", price: "service_tiers" },
  speed: { what: "this speed", price: NONE },
  inference_geo: { what: "this inference region", price: NONE },
  hosted_tool: { what: "this tool, which the provider runs", price: NONE },
  plugin: { what: "this plugin", price: NONE },
  modality: { what: "this kind of output", price: NONE },
  payer: { what: "calls that another account pays", price: NONE },
  cache_ttl: { what: "writing to a cache for this time", price: NONE },
  refused: { what: "this field", price: NONE },
  large_prompt: { what: "larger prompts", price: "tiers" },
  audio_input: { what: "audio in a message", price: "audio_input" },
  audio_output: { what: "audio output", price: "audio_output" },
  image_output: { what: "image output", price: "image_output" },
  page: { what: "pages of documents", price: "page" },
  cache_write_1h: { what: "writing to a cache for one hour", price: "cache_write_1h" },
  web_search: { what: "web searches", price: "web_search", opens: "rounds" },
  tool_run: { what: "runs of this tool of the provider", price: NONE, opens: "rounds" },
  provider_work: { what: "what the provider adds to the prompt", price: null, opens: "rounds" },
  hidden: { what: "a prompt that only the provider has", price: null, opens: "once" },
  unmeasured: { what: "a file whose bytes do not bound its tokens", price: null, opens: "once" },
  larger_output: { what: "larger outputs", price: null },
  larger_pictures: { what: "larger pictures", price: null, opens: "once", unless_part_tokens: true },
} as const satisfies Readonly<Record<string, Switch>>

/** The most tokens of the instructions that Anthropic adds to a prompt with tools; `TOOLS` has those for its own tools. */
export const TOOLS_TOKENS = 346

/**
 * Tools by their type without its date, or by the only name of a tool without a type. `client`: the client runs it. `provider_work`: the
 * provider runs it for the tokens alone. `web_search` and `tool_run:NAME`: it has a fee. Any other tool is refused (D61). The
 * client runs it after all, if this field of the tool has this value or type. `tokens`: the most that the provider adds for it.
 */
export const TOOLS: readonly (readonly [names: string, who: string, client_if?: string, tokens?: number])[] =
  [
    ["function custom function_declarations functionDeclarations namespace", "client"],
    ["local_shell apply_patch memory tool_definition tool_reference", "client"],
    ["bash", "client", "", 245],
    ["text_editor", "client", "", 700],
    ["computer computer_use computer_use_preview computer_toolset browser_toolset", "client", "", 1_234],
    ["mcp mcp_toolset tool_search_tool_regex tool_search_tool_bm25", "provider_work"],
    ["tool_search", "provider_work", "execution=client"],
    ["web_fetch url_context urlContext openrouter:datetime openrouter:tool_search", "provider_work"],
    ["web_search web_search_preview google_search googleSearch google_search_retrieval", "web_search"],
    ["googleSearchRetrieval browser_search builtin_function openrouter:web_search", "web_search"],
    ["web_search_premium", "tool_run:web_search_premium"],
    ["enterprise_web_search", "tool_run:enterprise_web_search"],
    ["google_maps googleMaps", "tool_run:google_maps"],
    ["x_search", "tool_run:x_search"],
    ["file_search", "tool_run:file_search"],
    ["collections_search", "tool_run:collections_search"],
    ["document_library", "tool_run:document_library"],
    ["code_interpreter", "tool_run:code_interpreter"],
    ["code_execution codeExecution", "tool_run:code_execution"],
    ["shell", "tool_run:shell", "environment=local"],
    ["web_extractor", "tool_run:web_extractor"],
    ["fetch_url", "tool_run:fetch_url"],
    ["people_search", "tool_run:people_search"],
    ["finance_search", "tool_run:finance_search"],
    ["openrouter:web_fetch", "tool_run:web_fetch"],
  ]
/** Plugins by their id; any other is refused (D61). */
export const PLUGINS: Readonly<Record<string, string>> = {
  web: "web_search",
  "web-fetch": "tool_run:web_fetch",
  "file-parser": "page",
  moderation: "",
  "response-healing": "",
  "context-compression": "",
}

/**
 * Parts by their type, where it says more than their fields: the kind of medium, or what it means. `kept` is a part that only the
 * provider has, if it has an id and none of these fields.
 */
export const PARTS: readonly (readonly [types: string, meaning: string, fields?: string])[] = [
  ["image image_url image_file image_embeds image_pil input_image computer_screenshot", "image"],
  ["audio audio_url audio_embeds input_audio", "audio"],
  ["file input_file document document_url video video_url input_video", "file"],
  ["text input_text output_text", "text"],
  ["item_reference container_upload", "hidden"],
  ["reasoning", "kept", "content encrypted_content"],
  ["image_generation_call", "kept", "result"],
  ["compaction_trigger", "provider_work"],
  ["mcp_list_tools", "opaque"],
]

/** Headers of a vendor's betas that change a price or a limit by themselves, by how they begin. Any other passes (D65). */
export const BETAS: readonly (readonly [start: string, meaning: string])[] = [
  ["context-1m-", "large_prompt"],
  ["fast-mode-", "speed"],
  ["user-profiles-billing-", "payer"],
  ["output-", "larger_output"],
]
