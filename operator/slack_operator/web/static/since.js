// How long ago something was, by this machine alone: the operator's clock may be another.

/** A moment. The monotonic clock may stand while the machine sleeps and the other may be set: the longer one counts. */
export class Since {
  constructor() {
    this.steady = performance.now();
    this.wall = Date.now();
  }

  get seconds() {
    return Math.max(0, performance.now() - this.steady, Date.now() - this.wall) / 1000;
  }
}
