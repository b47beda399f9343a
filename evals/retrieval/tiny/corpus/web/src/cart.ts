/** The shopping cart of the label shop: lines, vouchers, total. */
export type Line = { label: string; cents: number; count: number };

export class Cart {
  private lines = new Map<string, Line>();

  add(label: string, cents: number, count = 1): void {
    const known = this.lines.get(label);
    this.lines.set(label, { label, cents, count: (known?.count ?? 0) + count });
  }

  remove(label: string): void {
    this.lines.delete(label);
  }

  /** Total in cents after the voucher; never below zero. */
  total(voucherPercent = 0): number {
    const sum = [...this.lines.values()].reduce((cents, line) => cents + line.cents * line.count, 0);
    return Math.max(0, Math.round(sum * (1 - voucherPercent / 100)));
  }
}
