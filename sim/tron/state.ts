/*
 * What the chain knows of accounts and contracts, at every height: each key keeps its versions, so that the head, the solid
 * block and a lagging node are read from one place, and a fork only cuts the newer versions off.
 *
 * Never does: change a value in place. A layer collects the writes of one transaction, one block or one node's pending.
 */
import type { Address } from './address.ts';
import type { Program } from './program-kinds.ts';

export type Usage = { readonly used: bigint; readonly slot: number };

export type Account = {
  readonly balance: bigint;
  readonly isContract: boolean;
  readonly createdMs: number;
  /** Own stake by resource, sun, without what is lent. */
  readonly stakedNet: bigint;
  readonly stakedEnergy: bigint;
  readonly lentNet: bigint;
  readonly lentEnergy: bigint;
  readonly borrowedNet: bigint;
  readonly borrowedEnergy: bigint;
  readonly net: Usage;
  readonly freeNet: Usage;
  readonly energy: Usage;
  /** `null`: the key of the address itself. */
  readonly permission: Permission | null;
  readonly lastMs: number;
};

export type Permission = {
  readonly threshold: number;
  readonly keys: readonly { readonly address: Address; readonly weight: number }[];
};

export interface Reader {
  account(address: Address): Account | null;
  program(address: Address): Program | null;
  /** A place of a contract's storage, or of the chain's own lists. */
  cell(space: string, key: string): bigint;
}

export interface Layer extends Reader {
  setAccount(address: Address, account: Account): void;
  setCell(space: string, key: string, value: bigint): void;
  /** Writes everything to the layer below, which this one was made on. */
  mergeInto(below: Layer): void;
  readonly accounts: ReadonlyMap<Address, Account>;
  readonly cells: ReadonlyMap<string, bigint>;
}

export type World = {
  readonly at: (height: number) => Reader;
  readonly commit: (height: number, layer: Layer) => void;
  readonly rollBack: (toHeight: number) => void;
  /** Changes every version: as if it had always been so. A fork takes none of it back. */
  readonly endow: (address: Address, change: (account: Account) => Account) => void;
  readonly endowCell: (space: string, key: string, units: bigint) => void;
  readonly deploy: (address: Address, program: Program) => void;
};

const NEVER: Usage = { used: 0n, slot: 0 };
/** Before every block. */
const ALWAYS = -1;

export function emptyAccount(createdMs: number, isContract = false): Account {
  return {
    balance: 0n,
    isContract,
    createdMs,
    stakedNet: 0n,
    stakedEnergy: 0n,
    lentNet: 0n,
    lentEnergy: 0n,
    borrowedNet: 0n,
    borrowedEnergy: 0n,
    net: NEVER,
    freeNet: NEVER,
    energy: NEVER,
    permission: null,
    lastMs: 0,
  };
}

type Version<V> = { readonly height: number; value: V };

export function makeWorld(startMs: number): World {
  const accounts = new Map<string, Version<Account>[]>();
  const cells = new Map<string, Version<bigint>[]>();
  const programs = new Map<Address, Program>();

  const endow = (address: Address, change: (account: Account) => Account): void => {
    const versions = accounts.get(address) ?? [];
    if (versions[0]?.height !== ALWAYS) versions.unshift({ height: ALWAYS, value: emptyAccount(startMs) });
    for (const version of versions) version.value = change(version.value);
    accounts.set(address, versions);
  };

  return {
    at: (height) => ({
      account: (address) => versionAt(accounts.get(address), height) ?? null,
      program: (address) => programs.get(address) ?? null,
      cell: (space, key) => versionAt(cells.get(`${space}/${key}`), height) ?? 0n,
    }),
    commit(height, layer) {
      for (const [key, value] of layer.accounts) push(accounts, key, height, value);
      for (const [key, value] of layer.cells) push(cells, key, height, value);
    },
    rollBack(toHeight) {
      cut(accounts, toHeight);
      cut(cells, toHeight);
    },
    endow,
    endowCell(space, key, units) {
      const name = `${space}/${key}`;
      const versions = cells.get(name) ?? [];
      if (versions[0]?.height !== ALWAYS) versions.unshift({ height: ALWAYS, value: 0n });
      for (const version of versions) version.value += units;
      cells.set(name, versions);
    },
    deploy(address, program) {
      programs.set(address, program);
      endow(address, (account) => ({ ...account, isContract: true }));
    },
  };
}

export function makeLayer(below: Reader): Layer {
  const accounts = new Map<Address, Account>();
  const cells = new Map<string, bigint>();
  return {
    accounts,
    cells,
    account: (address) => accounts.get(address) ?? below.account(address),
    program: (address) => below.program(address),
    cell: (space, key) => cells.get(`${space}/${key}`) ?? below.cell(space, key),
    setAccount(address, account) {
      accounts.set(address, account);
    },
    setCell(space, key, value) {
      cells.set(`${space}/${key}`, value);
    },
    mergeInto(target) {
      for (const [address, account] of accounts) target.setAccount(address, account);
      for (const [name, value] of cells) {
        const cut = name.indexOf('/');
        target.setCell(name.slice(0, cut), name.slice(cut + 1), value);
      }
    },
  };
}

function versionAt<V>(versions: readonly Version<V>[] | undefined, height: number): V | undefined {
  if (versions === undefined) return undefined;
  for (let place = versions.length - 1; place >= 0; place -= 1) {
    const version = versions[place];
    if (version !== undefined && version.height <= height) return version.value;
  }
  return undefined;
}

function push<V>(all: Map<string, Version<V>[]>, key: string, height: number, value: V): void {
  const versions = all.get(key);
  if (versions === undefined) all.set(key, [{ height, value }]);
  else versions.push({ height, value });
}

function cut<V>(all: Map<string, Version<V>[]>, toHeight: number): void {
  for (const [key, versions] of all) {
    while ((versions.at(-1)?.height ?? ALWAYS) > toHeight) versions.pop();
    if (versions.length === 0) all.delete(key);
  }
}
