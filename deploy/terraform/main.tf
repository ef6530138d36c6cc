# Accounts of a gateway with a credit and a monthly budget: docs/deploying.md#terraform.
# It needs no provider from a registry, only curl. TOLLGATE_ADMIN_TOKEN is read from the environment and never in the state.

terraform {
  required_version = ">= 1.4"
}

variable "url" {
  description = "The address of the admin API."
  type        = string
  default     = "http://127.0.0.1:8080"
}

variable "accounts" {
  description = "By name: the credit that the account begins with, and the most that it may spend in a month, in USD."
  type        = map(object({ credit = string, budget = string }))
}

locals {
  post = "curl --silent --show-error --fail-with-body --header \"Authorization: Bearer $TOLLGATE_ADMIN_TOKEN\" --json \"$BODY\""
  # From the names, so a request that is sent again has the same id and changes nothing.
  ids = { for name, _ in var.accounts : name => uuidv5("url", "tollgate:account:${name}") }
}

resource "terraform_data" "account" {
  for_each = var.accounts
  input    = { at = "${var.url}/admin/accounts", id = local.ids[each.key] }

  provisioner "local-exec" {
    command     = "${local.post} \"$AT\""
    environment = { AT = self.input.at, BODY = jsonencode({ id = self.input.id, name = each.key }) }
  }

  # Accounts are kept, with their journal: destroying one suspends it.
  provisioner "local-exec" {
    when        = destroy
    command     = "curl --silent --show-error --fail-with-body --header \"Authorization: Bearer $TOLLGATE_ADMIN_TOKEN\" --json '{\"suspended\":true}' --request PATCH \"$AT\""
    environment = { AT = "${self.input.at}/${self.input.id}" }
  }
}

# A credit of another amount has another id: it is added to what was credited before.
resource "terraform_data" "credit" {
  for_each = var.accounts
  input = {
    at   = "${var.url}/admin/accounts/${terraform_data.account[each.key].output.id}/credits"
    body = { id = uuidv5("url", "tollgate:credit:${each.key}:${each.value.credit}"), amount = each.value.credit, reason = "Terraform" }
  }
  triggers_replace = each.value.credit

  provisioner "local-exec" {
    command     = "${local.post} \"$AT\""
    environment = { AT = self.input.at, BODY = jsonencode(self.input.body) }
  }
}

resource "terraform_data" "budget" {
  for_each = var.accounts
  input = {
    url  = var.url
    at   = "${var.url}/admin/accounts/${terraform_data.account[each.key].output.id}/budgets"
    body = { id = uuidv5("url", "tollgate:budget:${each.key}:${each.value.budget}"), name = "Terraform", selector = "all", amount = each.value.budget, per = "month" }
  }
  triggers_replace = each.value.budget

  provisioner "local-exec" {
    command     = "${local.post} \"$AT\""
    environment = { AT = self.input.at, BODY = jsonencode(self.input.body) }
  }

  provisioner "local-exec" {
    when        = destroy
    command     = "curl --silent --show-error --fail-with-body --header \"Authorization: Bearer $TOLLGATE_ADMIN_TOKEN\" --request DELETE \"$AT\""
    environment = { AT = "${self.input.url}/admin/budgets/${self.input.body.id}" }
  }
}

output "accounts" {
  description = "The id of each account, for tollgate keys create."
  value       = local.ids
}
