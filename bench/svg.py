"""Line plots as SVG text, one line per contender: a few evenly spaced points, or a value over time.

Needs only Python.
"""

from html import escape

WIDTH, LEFT, RIGHT, TOP, PLOT = 460, 64, 16, 34, 188  # PLOT: height of the area inside the axes
COLOURS = {"ligerdsl": "#d62728", "liger": "#1f77b4", "compile": "#2ca02c", "torch": "#7f7f7f",
           "quack": "#9467bd", "hf": "#7f7f7f", "ligerdsl_without_flce": "#ff7f0e",
           "hf, seed 0": "#7f7f7f", "hf, seed 1": "#c7c7c7", "liger, seed 0": "#1f77b4",
           "ligerdsl, seed 0": "#d62728", "liger_without_flce": "#17becf",
           "liger_on_ligerdsl": "#8c564b", "copy": "#000000", "floor": "#000000"}
OTHERS = ("#8c564b", "#e377c2", "#bcbd22", "#17becf", "#ff9896", "#98df8a")


def nice_top(value):
    """Returns the smallest number >= value of the form 1, 2, 2.5, 5 or 10 times a power of ten."""
    power = 1.0
    while power * 10 < value:
        power *= 10
    while power > value:
        power /= 10
    return next(power * f for f in (1, 2, 2.5, 5, 10) if power * f >= value)


def number(value):
    return f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:g}"


class _Figure:
    """The axes and a legend below them. `lines`: by contender."""

    def __init__(self, title, x_label, y_label, lines, names, top):
        self.names, self.top, self.spare = names or {}, top, iter(OTHERS)
        # width of the longest legend entry
        self.entry = 28 + 6 * max(len(self.names.get(contender, contender)) for contender in lines)
        self.columns = max(1, (WIDTH - LEFT - RIGHT) // self.entry)
        height = TOP + PLOT + 62 + 16 * -(-len(lines) // self.columns)
        self.out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
                    f'width="{WIDTH}" height="{height}" font-family="sans-serif" font-size="11">',
                    f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
                    f'<text x="{WIDTH / 2:g}" y="18" text-anchor="middle" '
                    f'font-size="13">{escape(title)}</text>']
        for step in range(6):
            value = top * step / 5
            y = self.y_of(value)
            self.out.append(f'<line x1="{LEFT}" y1="{y:.1f}" x2="{WIDTH - RIGHT}" y2="{y:.1f}" '
                            'stroke="#dddddd"/>')
            self.out.append(f'<text x="{LEFT - 6}" y="{y + 4:.1f}" '
                            f'text-anchor="end">{number(value)}</text>')
        self.labels = [f'<text x="{LEFT + (WIDTH - LEFT - RIGHT) / 2:g}" y="{TOP + PLOT + 32}" '
                       f'text-anchor="middle">{escape(x_label)}</text>',
                       f'<text transform="translate(14 {TOP + PLOT / 2:g}) rotate(-90)" '
                       f'text-anchor="middle">{escape(y_label)}</text>']

    def y_of(self, value):
        return TOP + PLOT * (1 - value / self.top)

    def places(self, at, size):
        """Draws labels below the axis, [(x, text)], then the axis titles."""
        for x, text in at:
            self.out.append(f'<text x="{x:.1f}" y="{TOP + PLOT + 15}" font-size="{size}" '
                            f'text-anchor="middle">{escape(str(text))}</text>')
        self.out += self.labels

    def line(self, k, contender, path, dots=(), width=2):
        colour = COLOURS.get(contender) or next(self.spare, "#444444")
        for x, y in dots:
            self.out.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>')
        dash = ' stroke-dasharray="4 3"' if contender in ("copy", "floor") else ""
        self.out.append(f'<path d="{" ".join(path)}" fill="none" stroke="{colour}" '
                        f'stroke-width="{width}"{dash}/>')
        x, y = LEFT + k % self.columns * self.entry, TOP + PLOT + 54 + k // self.columns * 16
        self.out.append(f'<line x1="{x}" y1="{y - 4}" x2="{x + 16}" y2="{y - 4}" stroke="{colour}" '
                        f'stroke-width="2"{dash}/>')
        self.out.append(f'<text x="{x + 20}" '
                        f'y="{y}">{escape(self.names.get(contender, contender))}</text>')

    def text(self):
        return "\n".join([*self.out, "</svg>", ""])


def plot(title, x_label, y_label, places, lines, names=None):
    """Returns a plot with labels along x. places: the labels. lines: {contender: {label: value}}; a
    missing point interrupts its line."""
    figure = _Figure(title, x_label, y_label, lines, names,
                     nice_top(max(value for points in lines.values() for value in points.values())))
    x_of = lambda i: LEFT + (WIDTH - LEFT - RIGHT) * (i + 0.5) / len(places)
    figure.places([(x_of(i), place) for i, place in enumerate(places)],
                  11 if len(places) <= 8 else 9)
    for k, (contender, points) in enumerate(lines.items()):
        path, dots, pen = [], [], "M"
        for i, place in enumerate(places):
            if place not in points:
                pen = "M"
                continue
            dots.append((x_of(i), figure.y_of(points[place])))
            path.append(f"{pen}{dots[-1][0]:.1f} {dots[-1][1]:.1f}")
            pen = "L"
        figure.line(k, contender, path, dots)
    return figure.text()


def _from_zero(title, x_label, y_label, lines, names):
    """Returns a figure with an x axis from 0, and a function from x to its position."""
    right = nice_top(max(points[-1][0] for points in lines.values()))
    figure = _Figure(title, x_label, y_label, lines, names,
                     nice_top(max(value for points in lines.values() for _, value in points)))
    x_of = lambda x: LEFT + (WIDTH - LEFT - RIGHT) * x / right
    figure.places([(x_of(right * i / 5), number(right * i / 5)) for i in range(6)], 11)
    return figure, x_of


def steps(title, x_label, y_label, lines, names=None):
    """Returns a step plot. lines: {contender: [(x, value)]} with ascending x from 0; a value is
    valid until the next one.

    Only the largest and the last value in each pixel column are drawn.
    """
    figure, x_of = _from_zero(title, x_label, y_label, lines, names)
    for k, (contender, points) in enumerate(lines.items()):
        columns = {}
        for x, value in points:
            largest, _ = columns.get(round(x_of(x)), (value, value))
            columns[round(x_of(x))] = (max(largest, value), value)
        path = []
        for x, (largest, last) in columns.items():
            path += [f"{'H' if path else f'M{x} {figure.y_of(largest):.1f} H'}{x}",
                     f"V{figure.y_of(largest):.1f}", f"V{figure.y_of(last):.1f}"]
        figure.line(k, contender, path, width=1)
    return figure.text()


def curves(title, x_label, y_label, lines, names=None):
    """Returns a plot with straight lines. lines: {contender: [(x, value)]} with x from 0 on."""
    figure, x_of = _from_zero(title, x_label, y_label, lines, names)
    for k, (contender, points) in enumerate(lines.items()):
        figure.line(k, contender,
                    [f"{'L' if i else 'M'}{x_of(x):.1f} {figure.y_of(value):.1f}"
                     for i, (x, value) in enumerate(points)], width=1.2)
    return figure.text()
