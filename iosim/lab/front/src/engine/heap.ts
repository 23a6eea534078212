/** A binary heap: `pop` gives what comes first. */
export class Heap<T> {
  private readonly items: T[] = [];

  constructor(private readonly before: (a: T, b: T) => boolean) {}

  get first(): T | undefined {
    return this.items[0];
  }

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
    if (item !== undefined && this.items.length > 0) this.replace(item);
    return first;
  }

  /** Puts an item, or the first one where it now comes later, in the first one's place. */
  replace(item: T): void {
    const { items, before } = this;
    let at = 0;
    for (let child = 1; child < items.length; child = 2 * at + 1) {
      if (child + 1 < items.length && before(items[child + 1]!, items[child]!)) child += 1;
      if (!before(items[child]!, item)) break;
      items[at] = items[child]!;
      at = child;
    }
    items[at] = item;
  }
}
