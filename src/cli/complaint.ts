/** What went wrong, as one sentence for whoever typed the command. Exit code 1. */
export class Complaint extends Error {
  override readonly name: string = "Complaint"
  readonly exit_code: number = 1
}

/** A change whose outcome is not known: nothing or no whole answer came back. */
export class UncertainComplaint extends Complaint {
  override readonly name = "UncertainComplaint"
}

/** A command line that cannot be understood. Exit code 2. */
export class UsageComplaint extends Complaint {
  override readonly name = "UsageComplaint"
  override readonly exit_code = 2
}
