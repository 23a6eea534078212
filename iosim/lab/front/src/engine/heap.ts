/** A binary heap: `pop` gives what comes first. */
export class Heap<T> {
  private readonly items: T[] = [];

  constructor(private readonly before: (a: T, b: T) => boolean) {}

  push(item: T): void {
    let at = this.items.push(item) - 1;
    for (let parent = (at - 1) >> 1; at > 0 && this.before(item, this.items[parent]!); parent = (at - 1) >> 1) {
      this.items[at] = this.items[parent]!;
      at = parent;
    }
    this.items[at] = item;
  }

  pop(): T | undefined {
    const first = this.items[0];
    const item = this.items.pop();
    if (item === undefined || this.items.length === 0) return first;
    let at = 0;
    for (let child = 1; child < this.items.length; child = 2 * at + 1) {
      const right = this.items[child + 1];
      if (right !== undefined && this.before(right, this.items[child]!)) child += 1;
      if (!this.before(this.items[child]!, item)) break;
      this.items[at] = this.items[child]!;
      at = child;
    }
    this.items[at] = item;
    return first;
  }
}
