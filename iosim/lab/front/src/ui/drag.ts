// What moves with a pointer from where it is pressed until it is let go.
import type { TargetedPointerEvent } from "preact";

export const dragging = (moveTo: (event: PointerEvent) => void) => ({
  onPointerDown(event: TargetedPointerEvent<Element>) {
    if (event.button !== 0) return;
    event.currentTarget.setPointerCapture(event.pointerId);
    moveTo(event);
  },
  onPointerMove(event: TargetedPointerEvent<Element>) {
    if (event.currentTarget.hasPointerCapture(event.pointerId)) moveTo(event);
  },
});
