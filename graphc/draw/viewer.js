"use strict";
// Draws what viewer.py tells: boxes that open, edges between layers, with pan and zoom.
// A drawing d has boxes (d.b), layers (d.l), links (d.e: from, to, port, ports), notes, tags, cuts.
function makeViewer(pane, data) {
  const { boxes, numbers: N } = data;
  const svg = pane.querySelector("svg");
  const view = element("g");
  svg.append(view);
  let drawing = null, marks = {}, wanted = "", opened = new Set(), at = { x: 0, y: 0, k: 1 };
  let places = new Map(), size = { width: 0, height: 0 };

  function element(tag, attributes, text) {
    const made = document.createElementNS(svg.namespaceURI, tag);
    for (const name in attributes) made.setAttribute(name, attributes[name]);
    if (text !== undefined) made.textContent = text;
    return made;
  }
  const shortened = (text) => {
    const letters = [...text];
    return letters.length <= N.longest ? text : letters.slice(0, N.longest - 1).join("") + "…";
  };
  const widthOf = (text, letter) =>
    letter * [...text].reduce((sum, c) => sum + (c.codePointAt(0) >= 0x2e80 ? 2 : 1), 0);
  const sum = (values) => values.reduce((a, b) => a + b, 0);
  const most = (values, least = 0) => values.reduce((a, b) => Math.max(a, b), least);

  // Layout: the sizes of boxes by what they show, then places for them. See layout.py.

  function linesOf(box, d, i) {
    const lines = [["name", box.n], ["small", box.p], ["note", d.n[i]], ["where", box.w], ["tag", d.g[i]]];
    return lines.filter((line) => line[1]).map(([kind, text]) => [kind, shortened(text)]);
  }
  function sceneOf(d, path) {
    const items = d.b.map((number, i) => {
      const box = boxes[number], key = `${path}/${number}`, lines = linesOf(box, d, i);
      const inside = opened.has(key) ? box.i.map(([title, held], j) => [title, sceneOf(held, `${key}.${j}`)]) : [];
      const sign = box.i.length ? 14 : 0;
      let w = most(lines.map(([kind, text]) => widthOf(text, kind === "name" ? N.name : N.small) + (kind === "name" ? sign : 0)));
      w += 2 * N.padding;
      const header = N.nameHeight + N.lineHeight * (lines.length - 1) + N.padding;
      let h = header;
      if (inside.length) {
        w = Math.max(w, sum(inside.map(([, s]) => Math.max(s.width, 80) + 2 * N.padding)) + N.padding);
        h += most(inside.map(([, s]) => s.height)) + N.lineHeight + 3 * N.padding;
      }
      return { number, box, key, lines, inside, header, w, h };
    });
    const outer = items.map((x) => Math.max(x.w, widthOf(shortened(x.box.t), N.small)));
    const at = placed(d, outer, items.map((x) => x.h + N.typeHeight));
    d.l.forEach((layer, j) => layer.forEach((item) => {
      if (item < items.length) Object.assign(items[item], { x: at.centers[item] - items[item].w / 2, y: at.tops[j], layer: j });
    }));
    return { d, items, at, width: at.width, height: at.height };
  }
  function placed(d, widths, heights) {
    const count = sum(d.l.map((layer) => layer.length)), n = widths.length;
    const w = [...widths, ...Array(count - n).fill(0)];
    const centers = centersOf(d, w, n);
    const left = centers.reduce((a, x, i) => Math.min(a, x - w[i] / 2), Infinity);
    const tops = [], bottoms = [], aside = w.map(() => 0);
    for (const [start, end] of d.e) aside[start] = Math.max(aside[start], Math.abs(centers[start] - centers[end]));
    let y = 0;
    for (const layer of d.l) {
      tops.push(y);
      y += most(layer.map((item) => (item < n ? heights[item] : 0)));
      bottoms.push(y);
      y += Math.min(N.highestGap, N.layerGap + most(layer.map((item) => aside[item])) / N.steep);
    }
    const shifted = centers.map((x) => x - left);
    return { centers: shifted, tops, bottoms, width: most(shifted.map((x, i) => x + w[i] / 2)), height: bottoms.length ? bottoms[bottoms.length - 1] : 0 };
  }
  const shiftOf = (link, w) => (link[2] === null ? 0 : w * ((link[2] + 1) / (link[3] + 1) - 0.5));
  function centersOf(d, w, n) {
    const above = w.map(() => []), below = w.map(() => []), centers = w.map(() => 0);
    for (const link of d.e) {
      const shift = shiftOf(link, w[link[1]]);
      above[link[1]].push([link[0], -shift]);
      below[link[0]].push([link[1], shift]);
    }
    for (const layer of d.l) {
      let x = -sum(layer.map((item) => w[item] + N.gap)) / 2;
      for (const item of layer) { centers[item] = x + w[item] / 2; x += w[item] + N.gap; }
    }
    for (let turn = 0; turn < N.passes; turn++) {
      const down = turn % 2 === 0, beside = down ? above : below;
      for (const layer of down ? d.l : d.l.slice().reverse()) {
        const wish = layer.map((item) => beside[item].length
          ? sum(beside[item].map(([other, shift]) => centers[other] + shift)) / beside[item].length : centers[item]);
        const weights = layer.map((item) => (!beside[item].length ? 0.1 : item >= n ? N.stiff : 1));
        apart(layer, wish, weights, w).forEach((x, i) => { centers[layer[i]] = x; });
      }
    }
    return centers;
  }
  // The positions nearest to those wished for in which nothing overlaps, by pooling.
  function apart(layer, wish, weights, w) {
    const offsets = [], blocks = [];
    layer.forEach((item, i) => offsets.push(i ? offsets[i - 1] + (w[layer[i - 1]] + w[item]) / 2 + N.gap : 0));
    wish.forEach((x, i) => {
      let block = [x - offsets[i], weights[i], 1];
      while (blocks.length && blocks[blocks.length - 1][0] > block[0]) {
        const [mean, total, count] = blocks.pop();
        block = [(mean * total + block[0] * block[1]) / (total + block[1]), total + block[1], count + block[2]];
      }
      blocks.push(block);
    });
    return blocks.flatMap(([mean, , count]) => Array(count).fill(mean)).map((mean, i) => mean + offsets[i]);
  }

  // Drawing.

  function paint(scene, into, dx, dy) {
    const { d, items, at } = scene, layerOf = new Map(), edges = [], into_ = new Map();
    d.l.forEach((layer, j) => layer.forEach((item) => layerOf.set(item, j)));
    for (const link of d.e) {
      const [start, end, port] = link, j = layerOf.get(start), x = at.centers[start];
      const y = start < items.length ? items[start].y + items[start].h : at.tops[j];
      const to = at.centers[end] + (port === null ? 0 : shiftOf(link, items[end].w));
      const bottom = at.bottoms[j], top = at.tops[j + 1], middle = (bottom + top) / 2;
      const arrow = port === null ? "" : "m-3.5,-6l3.5,6l3.5,-6";
      const path = element("path", { class: "edge", d: `M${x},${y}V${bottom}C${x},${middle} ${to},${middle} ${to},${top}${arrow}` });
      edges.push({ link, path });
      if (port === null) into_.set(end, edges[edges.length - 1]);
      into.append(path);
    }
    items.forEach((item, i) => into.append(boxOf(scene, item, i, dx, dy, () => near(edges, into_, items.length, i))));
  }
  // The edges from and to a box, along their bends.
  function near(edges, bends, nodes, i) {
    const found = new Set();
    for (const edge of edges) {
      const chain = [edge];
      while (chain[0].link[0] >= nodes) chain.unshift(bends.get(chain[0].link[0]));
      if (edge.link[2] !== null && (edge.link[1] === i || chain[0].link[0] === i)) chain.forEach((one) => found.add(one.path));
    }
    return found;
  }
  const holds = (box, test) => box.i.some(([, d]) => d.b.some((n) => test(n) || holds(boxes[n], test)));
  function matches(number) {
    const box = boxes[number];
    return `${box.n} ${box.p} ${box.w || ""} ${box.t}`.toLowerCase().includes(wanted);
  }
  function boxOf({ d }, item, i, dx, dy, edges) {
    const { box, number, w, h, x, y } = item, holder = box.i.length > 0, isOpen = item.inside.length > 0;
    const mark = marks[number] || (holder && !isOpen && holds(box, (n) => marks[n]) ? "within" : "");
    const found = wanted && (matches(number) || (holder && !isOpen && holds(box, matches))) ? " found" : "";
    const g = element("g", { class: `box ${box.k}${i in d.g ? " output" : ""}${mark ? ` ${mark}` : ""}${found}`, transform: `translate(${x},${y})` });
    places.set(item.key, { x: dx + x, y: dy + y, w, h: item.header, found: Boolean(found) });
    const about = [box.n + (box.p ? ` (${box.p})` : ""), box.t, box.c === box.n ? "" : box.c, box.w];
    g.append(element("title", {}, about.filter(Boolean).join("\n")));
    g.append(element("rect", { class: "shape", width: w, height: h }));
    if (box.k === "shared") g.append(element("rect", { class: "double", x: 3, y: 3, width: w - 6, height: h - 6 }));
    if (d.c.includes(i)) g.append(element("text", { class: "more", x: w / 2, y: -4 }, "⋯"));
    if (mark) {
      g.append(element("circle", { class: "sign", cx: 0, cy: 0, r: 7.5 }));
      g.append(element("text", { class: "sign", x: 0, y: 4.5 }, { gone: "−", new: "+", within: "±" }[mark]));
    }
    item.lines.forEach(([kind, text], j) => {
      const sign = kind === "name" && holder ? (isOpen ? "▾ " : "▸ ") : "";
      g.append(element("text", { class: kind, x: w / 2, y: N.padding / 2 + N.nameHeight - 5 + j * N.lineHeight }, sign + text));
    });
    g.append(element("text", { class: "type", x: w / 2, y: h + N.typeHeight - 4 }, shortened(box.t)));
    let left = N.padding;
    for (const [title, scene] of item.inside) {
      const wide = Math.max(scene.width, 80) + N.padding, top = item.header;
      g.append(element("rect", { class: "inside", x: left, y: top, width: wide, height: scene.height + N.lineHeight + 2 * N.padding }));
      g.append(element("text", { class: "title", x: left + 5, y: top + 11 }, title + (scene.d.m ? " (in part)" : "")));
      const [bx, by] = [left + (wide - scene.width) / 2, top + N.lineHeight + N.padding];
      const body = element("g", { transform: `translate(${bx},${by})` });
      paint(scene, body, dx + x + bx, dy + y + by);
      g.append(body);
      left += wide + N.padding;
    }
    if (holder) openable(g, item, isOpen);
    g.onpointerenter = () => edges().forEach((path) => { path.classList.add("near"); path.parentNode.insertBefore(path, path.parentNode.querySelector(":scope > .box")); });
    g.onpointerleave = () => edges().forEach((path) => path.classList.remove("near"));
    return g;
  }
  function openable(g, item, isOpen) {
    const handle = element("rect", { class: "handle", width: item.w, height: item.header, tabindex: 0, role: "button", "aria-expanded": isOpen, "aria-label": `${isOpen ? "Close" : "Open"} ${item.box.n}` });
    const toggle = (event) => {
      event.preventDefault();
      event.stopPropagation();
      const before = places.get(item.key);
      if (!opened.delete(item.key)) opened.add(item.key);
      draw();
      const after = places.get(item.key);
      at.x += (before.x + before.w / 2 - after.x - after.w / 2) * at.k;
      at.y += (before.y - after.y) * at.k;
      move();
      const again = [...view.querySelectorAll(".handle")].find((one) => one.dataset.key === item.key);
      if (again && event.type === "keydown") again.focus();
    };
    handle.dataset.key = item.key;
    handle.onclick = (event) => { if (!moved) toggle(event); };
    handle.onkeydown = (event) => { if (event.key === "Enter" || event.key === " ") toggle(event); };
    g.append(handle);
  }
  function draw() {
    places = new Map();
    view.textContent = "";
    if (!drawing) return;
    const scene = sceneOf(drawing, "");
    size = { width: scene.width, height: scene.height };
    paint(scene, view, 0, 0);
  }

  // Looking.

  function move() {
    view.setAttribute("transform", `translate(${at.x},${at.y}) scale(${at.k})`);
  }
  function fit(least) {
    const { width, height } = svg.getBoundingClientRect();
    const [wide, high] = [(width - 28) / Math.max(size.width, 1), (height - 28) / Math.max(size.height, 1)];
    // Text that can be read comes before all of it in sight.
    at.k = Math.min(1.1, Math.max(wide, Math.min(0.45, least)), Math.max(high, least));
    at.x = (width - size.width * at.k) / 2;
    at.y = Math.max(14, (height - size.height * at.k) / 2);
    move();
  }
  function zoom(by, x, y) {
    const box = svg.getBoundingClientRect();
    if (x === undefined) [x, y] = [box.width / 2, box.height / 2];
    const k = Math.min(4, Math.max(0.02, at.k * by));
    at.x = x - ((x - at.x) * k) / at.k;
    at.y = y - ((y - at.y) * k) / at.k;
    at.k = k;
    move();
  }
  let held = null, moved = false;
  svg.onpointerdown = (event) => { held = { x: event.clientX - at.x, y: event.clientY - at.y, from: [event.clientX, event.clientY] }; moved = false; };
  svg.onpointermove = (event) => {
    if (!held || !event.buttons) return;
    if (!moved && Math.hypot(event.clientX - held.from[0], event.clientY - held.from[1]) < 4) return;
    if (!moved) svg.setPointerCapture(event.pointerId);
    moved = true;
    at.x = event.clientX - held.x;
    at.y = event.clientY - held.y;
    move();
  };
  svg.onpointerup = () => { held = null; };
  // The wheel moves the drawing, and with Ctrl (or two fingers apart) it zooms.
  svg.addEventListener("wheel", (event) => {
    const box = svg.getBoundingClientRect();
    if (event.ctrlKey || event.metaKey) {
      event.preventDefault();
      zoom(Math.exp(-event.deltaY / 300), event.clientX - box.left, event.clientY - box.top);
    } else if (size.height * at.k > box.height || size.width * at.k > box.width) {
      event.preventDefault();
      at.x -= event.shiftKey ? event.deltaY : event.deltaX;
      at.y -= event.shiftKey ? 0 : event.deltaY;
      move();
    }
  }, { passive: false });

  function openAll(test) {
    const walk = (d, path) => d.b.forEach((number) => {
      const box = boxes[number], key = `${path}/${number}`;
      if (!box.i.length || !test(number)) return;
      opened.add(key);
      box.i.forEach(([, inner], j) => walk(inner, `${key}.${j}`));
    });
    walk(drawing, "");
  }
  let turn = 0;
  return {
    // Shows a drawing; marks are "gone", "new" or "within" by box. What holds a marked box is opened.
    show(d, given = {}, least = 0.85) {
      [drawing, marks, opened] = [d, given, new Set()];
      if (d) openAll((number) => marks[number] === "within" || holds(boxes[number], (n) => marks[n]));
      draw();
      fit(least);
    },
    zoom,
    fit: () => fit(0.02),
    openAll() { openAll(() => true); draw(); fit(0.7); },
    closeAll() { opened = new Set(); draw(); fit(0.85); },
    find(text) { wanted = text.trim().toLowerCase(); turn = 0; draw(); return [...places.values()].filter((x) => x.found).length; },
    next() {
      const found = [...places.values()].filter((x) => x.found);
      if (!found.length) return;
      const one = found[turn++ % found.length], box = svg.getBoundingClientRect();
      at.k = Math.max(at.k, 0.8);
      at.x = box.width / 2 - (one.x + one.w / 2) * at.k;
      at.y = box.height / 2 - (one.y + one.h / 2) * at.k;
      move();
    },
  };
}
