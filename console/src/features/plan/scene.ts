/** A large plan as a picture: what is painted where, and the painting of it. */

import type { PlanGraph } from "@/shared/api";
import { COLORS, type Kind, kindOf } from "@/shared/ui/states";
import { isOnPath, NODE } from "./layout";
import { standingOf } from "./worker";

export interface Box {
  id: string;
  x: number;
  y: number;
  kind: Kind;
  isCritical: boolean;
}

interface Line {
  x: number;
  y: number;
  toX: number;
  toY: number;
  style: "plain" | "critical" | "skipped";
}

export interface Scene {
  boxes: readonly Box[];
  lines: readonly Line[];
}

/** From where one looks at it: how far it is moved and scaled, and the size of the window. */
export interface View {
  x: number;
  y: number;
  zoom: number;
  width: number;
  height: number;
}

/** From where on the words in a subtask can be read; further away it is a box with its id. */
export const READABLE = 0.7;
/** How much more than the window is painted on each side of it, as a part of the window. */
const AROUND = 0.25;
/** How much a picture is enlarged before it is painted again. */
const BLURRED = 1.5;

export function isFar({ zoom }: View): boolean {
  return zoom < READABLE;
}

/** What is painted for a view: more than the window shows, so that it can be moved a little. */
export function aroundOf({ x, y, zoom, width, height }: View): View {
  const [left, top] = [AROUND * width, AROUND * height];
  return { x: x + left, y: y + top, zoom, width: width + 2 * left, height: height + 2 * top };
}

/** Where the picture that was painted for one view belongs in another. */
export function moved(painted: View, now: View): { x: number; y: number; scale: number } {
  const { x, y } = aroundOf(painted);
  const scale = now.zoom / painted.zoom;
  return { x: now.x - x * scale, y: now.y - y * scale, scale };
}

/** Whether a picture that was painted for one view can stand for another, moved and scaled. */
export function isGoodFor(painted: View, now: View): boolean {
  const { x, y, scale } = moved(painted, now);
  const { width, height } = aroundOf(painted);
  return (
    painted.width === now.width &&
    painted.height === now.height &&
    isFar(painted) === isFar(now) &&
    scale <= BLURRED &&
    x <= 0 &&
    y <= 0 &&
    x + width * scale >= now.width &&
    y + height * scale >= now.height
  );
}

export interface Ink {
  line: string;
  strong: string;
  box: string;
  border: string;
  text: string;
  font: string;
  kinds: Record<Kind, string>;
}

/** A sign for each kind of state, so that colour is not all that tells. */
const SIGNS: Record<Kind, string> = {
  new: "○",
  running: "◑",
  waiting: "!",
  paused: "‖",
  done: "✓",
  failed: "✕",
  over: "–",
};
const STRIPE = 12;
const LETTERS = 40;
/** From where on even an id is too small: then the sign of the state stands alone, larger. */
const TINY = 0.2;

type Places = ReadonlyMap<string, { x: number; y: number }>;

/** What is painted of a plan. */
export function sceneOf(graph: PlanGraph, places: Places, path: readonly string[]): Scene {
  const boxes = graph.nodes.map((node) => ({
    id: node.id,
    ...(places.get(node.id) ?? { x: 0, y: 0 }),
    kind: kindOf(standingOf(node)),
    isCritical: path.includes(node.id),
  }));
  const skipped = new Set(
    graph.nodes.flatMap(({ id, status }) => (status === "skipped" ? id : [])),
  );
  const lines = graph.edges.flatMap(({ from = "", to = "" }): Line[] => {
    const [begin, end] = [places.get(from), places.get(to)];
    if (begin === undefined || end === undefined) {
      return [];
    }
    const style = isOnPath(path, from, to) ? "critical" : skipped.has(to) ? "skipped" : "plain";
    return [
      {
        x: begin.x + NODE.width,
        y: begin.y + NODE.height / 2,
        toX: end.x,
        toY: end.y + NODE.height / 2,
        style,
      },
    ];
  });
  return { boxes, lines };
}

/** The page's colours, where the canvas stands. */
export function inkOf(style: CSSStyleDeclaration): Ink {
  const of = (name: string) => style.getPropertyValue(`--mantine-color-${name}`).trim();
  const kinds = Object.entries(COLORS).map(([kind, hue]) => [kind, of(`${hue}-6`)]);
  return {
    line: of("gray-6"),
    strong: of("text"),
    box: of("body"),
    border: of("default-border"),
    text: of("text"),
    font: style.fontFamily,
    kinds: Object.fromEntries(kinds) as Record<Kind, string>,
  };
}

/** Paint what is in view. */
export function paint(canvas: HTMLCanvasElement, scene: Scene, view: View, ink: Ink): void {
  const context = canvas.getContext("2d");
  const { x, y, zoom } = view;
  const [width, height] = [Math.ceil(view.width), Math.ceil(view.height)];
  const dots = window.devicePixelRatio;
  if (context === null) {
    return;
  }
  if (canvas.width !== width * dots || canvas.height !== height * dots) {
    canvas.width = width * dots;
    canvas.height = height * dots;
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
  }
  context.setTransform(1, 0, 0, 1, 0, 0);
  context.clearRect(0, 0, canvas.width, canvas.height);
  context.setTransform(dots * zoom, 0, 0, dots * zoom, dots * x, dots * y);
  const isSeen = seenFrom(view);
  const seen = scene.lines.filter((line) => isSeen(line.x, line.y, line.toX, line.toY));
  for (const style of ["plain", "skipped", "critical"] as const) {
    context.setLineDash(style === "skipped" ? [6, 6] : []);
    context.strokeStyle = style === "critical" ? ink.strong : ink.line;
    context.lineWidth = style === "critical" ? 3 : 1.25;
    const these = seen.filter((line) => line.style === style);
    context.stroke(joined(these, isFar(view)));
  }
  context.setLineDash([]);
  if (isFar(view)) {
    const boxes = scene.boxes.filter((box) =>
      isSeen(box.x, box.y, box.x + NODE.width, box.y + NODE.height),
    );
    for (const box of boxes) {
      paintBox(context, box, ink, zoom < TINY);
    }
  }
}

/** Tells whether a rectangle is at least partly in view. */
export function seenFrom({ x, y, zoom, width, height }: View) {
  const [left, top] = [-x / zoom, -y / zoom];
  const [right, bottom] = [left + width / zoom, top + height / zoom];
  return (x1: number, y1: number, x2: number, y2: number) =>
    Math.max(x1, x2) >= left &&
    Math.min(x1, x2) <= right &&
    Math.max(y1, y2) >= top &&
    Math.min(y1, y2) <= bottom;
}

/** Bent, as edges are; straight from far away, where that is not seen and takes half the time. */
function joined(lines: readonly Line[], isStraight: boolean): Path2D {
  const path = new Path2D();
  for (const { x, y, toX, toY } of lines) {
    const bend = (toX - x) / 2;
    path.moveTo(x, y);
    if (isStraight) {
      path.lineTo(toX, toY);
    } else {
      path.bezierCurveTo(x + bend, y, toX - bend, toY, toX, toY);
    }
  }
  return path;
}

function paintBox(context: CanvasRenderingContext2D, box: Box, ink: Ink, isTiny: boolean): void {
  const { x, y, kind, id, isCritical } = box;
  context.fillStyle = ink.box;
  context.fillRect(x, y, NODE.width, NODE.height);
  context.strokeStyle = isCritical ? ink.strong : ink.border;
  context.lineWidth = isCritical ? 4 : 2;
  context.strokeRect(x, y, NODE.width, NODE.height);
  context.fillStyle = ink.kinds[kind];
  context.fillRect(x, y, STRIPE, NODE.height);
  context.fillStyle = ink.text;
  context.font = `600 ${isTiny ? 2 * LETTERS : LETTERS}px ${ink.font}`;
  context.textBaseline = "middle";
  const left = x + 2 * STRIPE;
  const words = isTiny ? SIGNS[kind] : `${SIGNS[kind]} ${id}`;
  context.fillText(words, left, y + NODE.height / 2, NODE.width - 3 * STRIPE);
}
