const dark = matchMedia("(prefers-color-scheme: dark)")
const followScheme = () => document.documentElement.classList.toggle("dark-mode", dark.matches)
dark.addEventListener("change", followScheme)
followScheme()

// validatorUrl: the default sends the document to a host elsewhere.
SwaggerUIBundle({
  url: "/docs/json",
  dom_id: "#reference",
  layout: "BaseLayout",
  presets: [SwaggerUIBundle.presets.apis],
  validatorUrl: null,
  deepLinking: true,
  defaultModelsExpandDepth: -1,
  defaultModelExpandDepth: 2,
  displayRequestDuration: true,
})
