/** The versions of the protocol that one side speaks, both included. */
export interface ProtocolWindow {
  readonly min: number;
  readonly max: number;
}

/** What this version speaks. */
export const protocolWindow: ProtocolWindow = { min: 3, max: 3 };
