import { execFileSync, spawnSync } from "node:child_process"
import { appendFileSync, chownSync, mkdirSync, mkdtempSync, rmSync, statSync } from "node:fs"
import { join } from "node:path"

const SIZE = "4m"

/** A small disk, which only root can make. */
export class Disk {
  readonly folder: string
  readonly #ballast: string

  private constructor(mounted: string, owner: number) {
    this.folder = join(mounted, "tables")
    this.#ballast = join(mounted, "ballast")
    mkdirSync(this.folder, { mode: 0o700 })
    chownSync(this.folder, owner, owner)
  }

  /** For the user who owns the file `like`; null where no disk can be mounted. */
  static mount(like: string): Disk | null {
    // Not below the folder of the test run, which could not be removed if this process were killed now.
    const at = mkdtempSync("/tmp/tollgate-disk-")
    const { status } = spawnSync("mount", ["-t", "tmpfs", "-o", `size=${SIZE},mode=755`, "tmpfs", at])
    if (status === 0) return new Disk(at, statSync(like).uid)
    rmSync(at, { recursive: true })
    return null
  }

  /** Whether one can be mounted here. */
  static possible(): boolean {
    const disk = process.getuid?.() === 0 ? Disk.mount("/") : null
    disk?.unmount()
    return disk !== null
  }

  fill(): void {
    for (let bytes = 65_536; bytes >= 1; ) {
      try {
        appendFileSync(this.#ballast, Buffer.alloc(bytes))
      } catch {
        bytes = Math.floor(bytes / 2)
      }
    }
  }

  makeRoom(): void {
    rmSync(this.#ballast)
  }

  unmount(): void {
    const at = join(this.folder, "..")
    execFileSync("umount", ["--lazy", at])
    rmSync(at, { recursive: true })
  }
}
