/** How long certificates of nodes live. */
export interface CertificateLimits {
  /** From the beginning of a certificate to its end, in milliseconds. */
  readonly certificateMs: number;
  /** How long after its end a certificate may still be renewed, in milliseconds. */
  readonly lapsedRenewalMs: number;
}

/** Seven days, and ninety more. */
export const defaultCertificateLimits: CertificateLimits = {
  certificateMs: 7 * 86_400_000,
  lapsedRenewalMs: 90 * 86_400_000,
};
