/** Who is logged in: a signed cookie with an expiry, no server-side state. */
import { createHmac, timingSafeEqual } from "node:crypto";

export interface Session {
  customer: string;
  expiresAt: number;
}

const LIFETIME_MS = 30 * 60 * 1000;

export function issue(customer: string, secret: string, now = Date.now()): string {
  const body = Buffer.from(JSON.stringify({ customer, expiresAt: now + LIFETIME_MS })).toString("base64url");
  return `${body}.${sign(body, secret)}`;
}

export function verify(cookie: string, secret: string, now = Date.now()): Session | null {
  const [body, signature] = cookie.split(".");
  const expected = sign(body, secret);
  if (!timingSafeEqual(Buffer.from(signature), Buffer.from(expected))) return null;
  const session: Session = JSON.parse(Buffer.from(body, "base64url").toString());
  return session.expiresAt > now ? session : null;
}

function sign(body: string, secret: string): string {
  return createHmac("sha256", secret).update(body).digest("base64url");
}
