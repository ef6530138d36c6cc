import { drizzle, type PostgresJsDatabase } from "drizzle-orm/postgres-js"
import type { Sql } from "postgres"
import { type Address, connect } from "../../src/ledger/database/address.ts"
import type { PageOf } from "../../src/ledger/database/page.ts"
import { type CallRecord, listCalls } from "../../src/ledger/reports/calls.ts"

/** The entries of a call in the order in which they were made: `held`, then how it ended, then `corrected`. */
export interface Story {
  readonly id: string
  readonly account_id: string
  readonly steps: readonly string[]
}

/** Every life that a call may have (D13), and no other. */
const LIVES: ReadonlySet<string> = new Set([
  "held",
  "held settled",
  "held released",
  "held expired",
  "held expired corrected",
])

export const CHECKPOINT = /INSERT INTO "tollgate"\."checkpoints"/

/** Sits in the database and notes every entry of the journal, whoever makes it. */
export class Witness {
  readonly #sql: Sql
  readonly #database: PostgresJsDatabase

  private constructor(sql: Sql) {
    this.#sql = sql
    this.#database = drizzle(sql)
  }

  static async of(address: Address): Promise<Witness> {
    const sql = connect(address, { max: 1, onnotice: () => {} })
    await sql.unsafe(`
      CREATE SCHEMA witness;
      CREATE TABLE witness.steps (number bigserial, id uuid, account_id uuid, step text);
      CREATE TABLE witness.overdrawn (account_id uuid, available_nano bigint);
      CREATE FUNCTION witness.step() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        INSERT INTO witness.steps (id, account_id, step) VALUES (NEW.id, NEW.account_id,
          -- The tables are partitions by month: holds_2026_11.
          CASE split_part(TG_TABLE_NAME, '_', 1)
            WHEN 'holds' THEN 'held' WHEN 'corrections' THEN 'corrected' ELSE to_jsonb(NEW)->>'outcome' END);
        RETURN NULL;
      END $$;
      CREATE FUNCTION witness.change() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        INSERT INTO witness.steps (id, account_id, step) VALUES (OLD.id, OLD.account_id, TG_OP || ' of ' || TG_TABLE_NAME);
        RETURN NULL;
      END $$;
      DO $$ DECLARE entries text; BEGIN
        FOREACH entries IN ARRAY ARRAY['holds', 'ends', 'corrections'] LOOP
          EXECUTE format('CREATE TRIGGER witness AFTER INSERT ON tollgate.%I
            FOR EACH ROW EXECUTE FUNCTION witness.step()', entries);
          EXECUTE format('CREATE TRIGGER witness_of_change AFTER UPDATE OR DELETE ON tollgate.%I
            FOR EACH ROW EXECUTE FUNCTION witness.change()', entries);
        END LOOP;
      END $$;
      CREATE FUNCTION witness.overdraft() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        INSERT INTO witness.overdrawn VALUES (NEW.id, NEW.balance_nano - NEW.held_nano);
        RETURN NULL;
      END $$;
      CREATE TRIGGER witness AFTER UPDATE ON tollgate.accounts
        FOR EACH ROW WHEN (NEW.balance_nano < NEW.held_nano) EXECUTE FUNCTION witness.overdraft();
      CREATE TABLE witness.exceeded (budget_id uuid, amount bigint, spent bigint, held bigint);
      CREATE FUNCTION witness.exceed() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        INSERT INTO witness.exceeded
        SELECT id, room, NEW.spent, NEW.held FROM tollgate.budgets,
          LATERAL (SELECT CASE WHEN raised_until > now() THEN raised_amount ELSE amount END AS room) r
        -- Only holds count: what calls cost may exceed a budget by an overage or a late settlement.
        WHERE id = NEW.id AND is_hard AND NEW.spent + NEW.held > room
          AND (TG_OP = 'INSERT' OR NEW.held > OLD.held OR NEW.since <> OLD.since);
        RETURN NULL;
      END $$;
      CREATE TRIGGER witness AFTER INSERT OR UPDATE ON tollgate.budget_windows
        FOR EACH ROW EXECUTE FUNCTION witness.exceed();`)
    return new Witness(sql)
  }

  /** Every call that ever held money. */
  async calls(): Promise<CallRecord[]> {
    const calls: CallRecord[] = []
    for (let after: string | null = null; ; ) {
      const { data, next }: PageOf<CallRecord> = await listCalls(this.#database, {}, { limit: 1_000, after })
      calls.push(...data)
      if (next === null) return calls
      after = next
    }
  }

  async stories(): Promise<Story[]> {
    return await this.#sql<Story[]>`
      SELECT id::text, account_id::text, array_agg(step ORDER BY number) AS steps FROM witness.steps GROUP BY 1, 2`
  }

  /** Accounts on which less than nothing was available at some time, though no overage and no late settlement says why. */
  async overdrawn(): Promise<string[]> {
    const rows = await this.#sql<{ account_id: string }[]>`
      SELECT DISTINCT o.account_id::text FROM witness.overdrawn o WHERE NOT EXISTS (
        SELECT FROM tollgate.calls x
        WHERE x.account_id = o.account_id AND x.notes && ARRAY['overage', 'settled_late'])`
    return rows.map(({ account_id }) => account_id)
  }

  /** Hard budgets that a hold has exceeded at some time. */
  async exceeded(): Promise<string[]> {
    const rows = await this.#sql<{ budget: string }[]>`
      SELECT format('%s: %s spent and %s held of %s', budget_id, spent, held, amount) AS budget FROM witness.exceeded`
    return rows.map(({ budget }) => budget)
  }

  /** The ids of the events that the journal should have told of: ends, corrections and credits (D96). */
  async events(): Promise<string[]> {
    const rows = await this.#sql<{ id: string }[]>`
      SELECT id::text || CASE step WHEN 'corrected' THEN '/c' ELSE '' END AS id FROM witness.steps WHERE step <> 'held'
      UNION ALL SELECT id::text FROM tollgate.credits`
    return rows.map(({ id }) => id)
  }

  /** The state of each sink, as text: its failures, its next attempt, and the lease of the gateway that delivers. */
  async sinks(): Promise<string[]> {
    const rows = await this.#sql<{ sink: string }[]>`
      SELECT to_jsonb(x)::text AS sink FROM (
        SELECT s.name, s.state, s.failures, s.reason, now(), s.retry_at, s.failing_since, s.delivered_at, s.epoch, s.xid, s.event_id,
          s.gateway_id, g.lease_until, g.dead_at
        FROM tollgate.sinks s LEFT JOIN tollgate.gateways g ON g.id = s.gateway_id) x`
    return rows.map(({ sink }) => sink)
  }

  /** What the latest call of an account would be charged if its gateway died now, in nano-USD. */
  async checkpoint(account_id: string): Promise<string | undefined> {
    const [row] = await this.#sql<{ checkpoint: string }[]>`
      SELECT c.charge_nano::text AS checkpoint FROM tollgate.checkpoints c JOIN tollgate.holds h USING (id)
      WHERE h.account_id = ${account_id} ORDER BY h.id DESC LIMIT 1`
    return row?.checkpoint
  }

  async end(): Promise<void> {
    await this.#sql.end({ timeout: 1 })
  }
}

/** What a story tells that may not be, or null. */
export function fault({ id, steps }: Story): string | null {
  const life = steps.join(" ")
  return LIVES.has(life) ? null : `call ${id} went ${life}`
}
