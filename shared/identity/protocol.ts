/** The versions of the protocol that one side speaks, both included. */
export interface ProtocolWindow {
  readonly min: number;
  readonly max: number;
}

/** What this version speaks: its own and the one before. */
export const protocolWindow: ProtocolWindow = { min: 2, max: 3 };
