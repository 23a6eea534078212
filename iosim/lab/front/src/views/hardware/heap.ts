// Items by time; of two at one time, the one with the lower number first.
export class Heap {
  private times: Float64Array;
  private items: Int32Array;
  size = 0;

  constructor(room: number) {
    this.times = new Float64Array(room + 1);
    this.items = new Int32Array(room + 1);
  }

  get time(): number {
    return this.size ? this.times[0]! : Infinity;
  }

  get item(): number {
    return this.items[0]!;
  }

  push(time: number, item: number): void {
    let k = this.size++;
    while (k > 0) {
      const up = (k - 1) >> 1;
      if (!this.before(time, item, up)) break;
      this.move(up, k);
      k = up;
    }
    this.set(k, time, item);
  }

  pop(): { time: number; item: number } {
    const found = { time: this.times[0]!, item: this.items[0]! };
    this.size--;
    if (this.size) this.replace(this.times[this.size]!, this.items[this.size]!);
    return found;
  }

  // Puts another in the place of the first.
  replace(time: number, item: number): void {
    let k = 0;
    for (;;) {
      let down = 2 * k + 1;
      if (down >= this.size) break;
      if (down + 1 < this.size && this.before(this.times[down + 1]!, this.items[down + 1]!, down)) down++;
      if (this.before(time, item, down)) break;
      this.move(down, k);
      k = down;
    }
    this.set(k, time, item);
  }

  private before(time: number, item: number, k: number): boolean {
    const other = this.times[k]!;
    return time < other || (time === other && item < this.items[k]!);
  }

  private move(from: number, to: number): void {
    this.times[to] = this.times[from]!;
    this.items[to] = this.items[from]!;
  }

  private set(k: number, time: number, item: number): void {
    this.times[k] = time;
    this.items[k] = item;
  }
}
