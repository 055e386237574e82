import { useComputedColorScheme } from "@mantine/core";
import {
  ControlButton,
  Controls,
  ReactFlow,
  type ReactFlowInstance,
  useStoreApi,
} from "@xyflow/react";
import "@xyflow/react/dist/style.css";
import { type MouseEvent, useEffect, useMemo, useRef, useState } from "react";
import { useTranslation } from "react-i18next";
import type { PlanGraph } from "@/shared/api";
import classes from "./GraphView.module.css";
import { layoutOf, NODE, pathOf } from "./layout";
import { nodesOf, openByKey, STEADY, type SubtaskNode, TYPES, useLabels } from "./SubtaskBox";
import { inkOf, paint, type Scene, sceneOf } from "./scene";

const HEIGHT = 560;
const LEAST_ZOOM = 0.07;
/** From where on the words in a subtask can be read; further away it is a box with its id. */
const READABLE = 0.7;
const MARGIN = 16;

/**
 * A plan of hundreds of subtasks. What joins them is painted on a canvas, and so are they themselves
 * while their words are too small to be read; only those that are near enough are elements.
 */
export function LargeGraph({ graph, onOpen }: { graph: PlanGraph; onOpen: (id: string) => void }) {
  const { t } = useTranslation();
  const scheme = useComputedColorScheme();
  const flow = useRef<ReactFlowInstance<SubtaskNode>>(undefined);
  const [isFar, setFar] = useState(false);
  const shape = JSON.stringify([graph.nodes.map(({ id }) => id), graph.edges]);
  // biome-ignore lint/correctness/useExhaustiveDependencies: times and states move nothing
  const layout = useMemo(() => layoutOf(graph), [shape]);
  const path = pathOf(graph);
  const scene = useMemo(() => sceneOf(graph, layout.places, path), [graph, layout, path]);
  const near = useMemo(() => nodesOf(graph, layout.places, path, false), [graph, layout, path]);

  function openAt({ clientX, clientY }: MouseEvent): void {
    const at = flow.current?.screenToFlowPosition({ x: clientX, y: clientY });
    const found = scene.boxes.find(
      ({ x, y }) =>
        at && at.x >= x && at.x <= x + NODE.width && at.y >= y && at.y <= y + NODE.height,
    );
    if (isFar && found !== undefined) {
      onOpen(found.id);
    }
  }

  return (
    <div className={classes.frame} style={{ height: HEIGHT }}>
      <ReactFlow
        key={shape}
        nodes={isFar ? [] : near}
        nodeTypes={TYPES}
        colorMode={scheme}
        ariaLabelConfig={useLabels()}
        onInit={(made) => {
          flow.current = made;
        }}
        onMove={(_, { zoom }) => setFar(zoom < READABLE)}
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
        onlyRenderVisibleElements
      >
        <Backdrop scene={scene} isFar={isFar} scheme={scheme} />
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

/** Painted again when it is moved, and when what is on it changes. */
function Backdrop({ scene, isFar, scheme }: { scene: Scene; isFar: boolean; scheme: string }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const store = useStoreApi();

  // biome-ignore lint/correctness/useExhaustiveDependencies: the scheme is in the canvas's style
  useEffect(() => {
    const on = canvas.current;
    if (on === null) {
      return;
    }
    const ink = inkOf(getComputedStyle(on));
    let frame = 0;
    const soon = () => {
      frame ||= requestAnimationFrame(() => {
        frame = 0;
        const { transform, width, height } = store.getState();
        paint(on, scene, { transform, width, height, isFar, ink });
      });
    };
    soon();
    const leave = store.subscribe((now, before) => {
      if (
        now.transform !== before.transform ||
        now.width !== before.width ||
        now.height !== before.height
      ) {
        soon();
      }
    });
    return () => {
      leave();
      cancelAnimationFrame(frame);
    };
  }, [scene, isFar, scheme, store]);

  return <canvas ref={canvas} className={classes.backdrop} />;
}
