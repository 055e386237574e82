import { expect, it } from "vitest";
import { aroundOf, isGoodFor, moved, type View } from "./scene";

const HERE: View = { x: 10, y: 20, zoom: 0.5, width: 800, height: 400 };

it("moves and scales a picture so that every point is where it belongs", () => {
  const now = { ...HERE, x: -40, y: 60, zoom: 0.6 };
  const around = aroundOf(HERE);
  const { x, y, scale } = moved(HERE, now);
  const at = { x: 300, y: 700 };
  expect(x + scale * (at.x * HERE.zoom + around.x)).toBeCloseTo(at.x * now.zoom + now.x);
  expect(y + scale * (at.y * HERE.zoom + around.y)).toBeCloseTo(at.y * now.zoom + now.y);
});

it("uses a picture for the views that it reaches, and not where it ends or is blurred", () => {
  expect(isGoodFor(HERE, { ...HERE, x: 200, y: -70 })).toBe(true);
  expect(isGoodFor(HERE, { ...HERE, x: 220 })).toBe(false);
  expect(isGoodFor(HERE, { ...HERE, zoom: 0.3 })).toBe(false);
  expect(isGoodFor(HERE, { ...HERE, zoom: 0.71 })).toBe(false);
  expect(isGoodFor(HERE, { ...HERE, width: 801 })).toBe(false);
  expect(isGoodFor({ ...HERE, zoom: 0.2 }, { ...HERE, zoom: 0.4 })).toBe(false);
});
