import { isFault } from "../../../shared/fault/fault.ts";
import type { SessionFace } from "../../sessions/face.ts";

/** A face over one connection, which it owns. */
export interface ConnectedFace extends AsyncDisposable {
  readonly face: SessionFace;
}

/** A face that outlives its connections. */
export interface RenewedFace extends AsyncDisposable {
  readonly face: SessionFace;
}

/**
 * A face whose connection is opened when it is first needed, and again after it was lost. A request that finds the
 * gateway away fails with `GATEWAY_UNREACHABLE`; the next one tries anew. Nothing is ever repeated by itself but lists.
 */
export function openRenewedFace(sessionId: string, connect: () => Promise<ConnectedFace>): RenewedFace {
  const connections = new Connections(connect);
  const list = async <T>(ask: (face: SessionFace) => Promise<T>): Promise<T> => {
    try {
      return await connections.use(ask);
    } catch (error) {
      if (!isFault(error, "GATEWAY_UNREACHABLE")) throw error;
      return await connections.use(ask);
    }
  };
  const face: SessionFace = {
    sessionId,
    listTools: (options) => list((at) => at.listTools(options)),
    explainTool: (options) => list((at) => at.explainTool(options)),
    listSkills: (options) => list((at) => at.listSkills(options)),
    listSkillFiles: (options) => list((at) => at.listSkillFiles(options)),
    searchMemory: (question) => list((at) => at.searchMemory(question)),
    getMemory: (lines) => list((at) => at.getMemory(lines)),
    callTool: (call) => connections.stream((at) => at.callTool(call)),
    readSkill: (options) => connections.stream((at) => at.readSkill(options)),
    changes: (options) => connections.stream((at) => at.changes(options)),
  };
  return { face, [Symbol.asyncDispose]: () => connections[Symbol.asyncDispose]() };
}

class Connections implements AsyncDisposable {
  readonly #connect: () => Promise<ConnectedFace>;
  #current: Promise<ConnectedFace> | undefined;

  constructor(connect: () => Promise<ConnectedFace>) {
    this.#connect = connect;
  }

  async use<T>(ask: (face: SessionFace) => Promise<T>): Promise<T> {
    const current = this.#open();
    try {
      return await ask((await current).face);
    } catch (error) {
      await this.#dropWhenLost(current, error);
      throw error;
    }
  }

  async *stream<T>(ask: (face: SessionFace) => AsyncIterable<T>): AsyncGenerator<T> {
    const current = this.#open();
    try {
      yield* ask((await current).face);
    } catch (error) {
      await this.#dropWhenLost(current, error);
      throw error;
    }
  }

  #open(): Promise<ConnectedFace> {
    this.#current ??= this.#connect();
    return this.#current;
  }

  async #dropWhenLost(current: Promise<ConnectedFace>, error: unknown): Promise<void> {
    if (!isFault(error, "GATEWAY_UNREACHABLE") || this.#current !== current) return;
    this.#current = undefined;
    await current.then(
      (connected) => connected[Symbol.asyncDispose](),
      () => undefined,
    );
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const current = this.#current;
    this.#current = undefined;
    await current?.then(
      (connected) => connected[Symbol.asyncDispose](),
      () => undefined,
    );
  }
}
