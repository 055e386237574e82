import { useComputedColorScheme } from "@mantine/core";
import {
  ControlButton,
  Controls,
  ReactFlow,
  type ReactFlowInstance,
  type ReactFlowState,
  useStoreApi,
} from "@xyflow/react";
import "@xyflow/react/dist/style.css";
import { type MouseEvent, useEffect, useLayoutEffect, useMemo, useRef, useState } from "react";
import { useTranslation } from "react-i18next";
import type { PlanGraph } from "@/shared/api";
import classes from "./GraphView.module.css";
import { layoutOf, NODE, pathOf } from "./layout";
import { nodesOf, openByKey, STEADY, type SubtaskNode, TYPES, useLabels } from "./SubtaskBox";
import {
  aroundOf,
  inkOf,
  isFar,
  isGoodFor,
  moved,
  paint,
  READABLE,
  type Scene,
  sceneOf,
  seenFrom,
  type View,
} from "./scene";

const HEIGHT = 560;
const LEAST_ZOOM = 0.07;
const MARGIN = 16;
/** Milliseconds without a movement after which everything is painted sharp. */
const AT_REST = 120;

/**
 * A plan of hundreds of subtasks. What joins them is painted on a canvas, and so are they themselves
 * while their words are too small to be read; only those that are near enough are elements. While
 * the plan is moved, what was painted is moved; it is painted again where it does not reach, and at
 * rest.
 */
export function LargeGraph({ graph, onOpen }: { graph: PlanGraph; onOpen: (id: string) => void }) {
  const { t } = useTranslation();
  const scheme = useComputedColorScheme();
  const flow = useRef<ReactFlowInstance<SubtaskNode>>(undefined);
  const [view, setView] = useState<View>();
  const shape = JSON.stringify([graph.nodes.map(({ id }) => id), graph.edges]);
  // biome-ignore lint/correctness/useExhaustiveDependencies: times and states move nothing
  const layout = useMemo(() => layoutOf(graph), [shape]);
  const path = pathOf(graph);
  const scene = useMemo(() => sceneOf(graph, layout.places, path), [graph, layout, path]);
  const all = useMemo(() => nodesOf(graph, layout.places, path, false), [graph, layout, path]);
  const near = useMemo(() => nearOf(all, view), [all, view]);

  function openAt({ clientX, clientY }: MouseEvent): void {
    const at = flow.current?.screenToFlowPosition({ x: clientX, y: clientY });
    const found = scene.boxes.find(
      ({ x, y }) =>
        at && at.x >= x && at.x <= x + NODE.width && at.y >= y && at.y <= y + NODE.height,
    );
    if (view && isFar(view) && found !== undefined) {
      onOpen(found.id);
    }
  }

  return (
    <div className={classes.frame} style={{ height: HEIGHT }}>
      <ReactFlow
        key={shape}
        nodes={near}
        nodeTypes={TYPES}
        colorMode={scheme}
        ariaLabelConfig={useLabels()}
        onInit={(made) => {
          flow.current = made;
        }}
        onNodeClick={(_, { id }) => onOpen(id)}
        onPaneClick={openAt}
        onKeyDown={(event) => openByKey(event, onOpen)}
        {...STEADY}
        nodesConnectable={false}
        zoomOnDoubleClick={false}
        minZoom={LEAST_ZOOM}
        defaultViewport={{
          x: MARGIN,
          y: (HEIGHT - layout.height * READABLE) / 2,
          zoom: READABLE,
        }}
      >
        <Backdrop scene={scene} view={view} scheme={scheme} onView={setView} />
        <Controls showInteractive={false} showFitView={false} position="bottom-right">
          <ControlButton
            onClick={() => void flow.current?.fitBounds({ x: 0, y: 0, ...layout })}
            title={t("plan.graph.fit")}
            aria-label={t("plan.graph.fit")}
          >
            <svg viewBox="0 0 16 16" aria-hidden="true">
              <path d="M1 5V1h4M11 1h4v4M15 11v4h-4M5 15H1v-4" fill="none" stroke="currentColor" />
            </svg>
          </ControlButton>
        </Controls>
      </ReactFlow>
    </div>
  );
}

/** The subtasks that are elements: those that a picture for this view shows, if they can be read. */
function nearOf(nodes: SubtaskNode[], view: View | undefined): SubtaskNode[] {
  if (view === undefined || isFar(view)) {
    return [];
  }
  const isSeen = seenFrom(aroundOf(view));
  return nodes.filter(({ position: { x, y } }) => isSeen(x, y, x + NODE.width, y + NODE.height));
}

function viewOf({ transform: [x, y, zoom], width, height }: ReactFlowState): View {
  return { x, y, zoom, width, height };
}

/** Painted for a view; moved with the plan until that is too far from it. */
function Backdrop({
  scene,
  view,
  scheme,
  onView,
}: {
  scene: Scene;
  view: View | undefined;
  scheme: string;
  onView: (view: View) => void;
}) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const painted = useRef<View>(undefined);
  const store = useStoreApi();

  // biome-ignore lint/correctness/useExhaustiveDependencies: the scheme is in the canvas's style
  useLayoutEffect(() => {
    painted.current = view;
    if (canvas.current !== null && view !== undefined) {
      paint(canvas.current, scene, aroundOf(view), inkOf(getComputedStyle(canvas.current)));
      place(canvas.current, view, viewOf(store.getState()));
    }
  }, [scene, view, scheme, store]);

  useEffect(() => {
    const on = canvas.current;
    let rest = 0;
    const look = () => {
      const now = viewOf(store.getState());
      if (painted.current === undefined || !isGoodFor(painted.current, now)) {
        onView(now);
      } else if (on !== null) {
        place(on, painted.current, now);
      }
    };
    const settle = () => {
      on?.parentElement?.removeAttribute("data-moving");
      onView(viewOf(store.getState()));
    };
    const leave = store.subscribe(({ transform, width, height }, before) => {
      if (transform !== before.transform || width !== before.width || height !== before.height) {
        on?.parentElement?.setAttribute("data-moving", "");
        clearTimeout(rest);
        rest = window.setTimeout(settle, AT_REST);
        look();
      }
    });
    look();
    return () => {
      leave();
      clearTimeout(rest);
    };
  }, [store, onView]);

  return <canvas ref={canvas} className={classes.backdrop} />;
}

function place(canvas: HTMLCanvasElement, painted: View, now: View): void {
  const { x, y, scale } = moved(painted, now);
  canvas.style.transform = `translate(${x}px, ${y}px) scale(${scale})`;
}
