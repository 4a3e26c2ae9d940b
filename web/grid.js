// The table of targets: any number of rows, of which only those in sight are elements. It draws, scrolls and moves the
// cursor; which rows there are, and what is in a cell, its owner says.
import { make } from './dom.js';

const spare = 6; // rows drawn above and below

export class Grid {
  // columns: [{key, title, class, fill(cell, row)}]; on: {open(row), sort(key)}
  constructor(element, columns, on) {
    Object.assign(this, { element, columns, on, rows: [], pool: [], active: -1, activeId: null });
    this.head = make('div', { class: 'grid-row grid-head', role: 'row', 'aria-rowindex': '1' });
    this.headers = columns.map((column) => {
      const button = make('button', { type: 'button', tabindex: '0', onclick: () => on.sort(column.key) }, column.title, make('span', { class: 'arrow', 'aria-hidden': 'true' }));
      return make('div', { role: 'columnheader', class: `cell ${column.class || ''}` }, button);
    });
    this.head.append(...this.headers);
    this.body = make('div', { class: 'grid-body', role: 'rowgroup' });
    element.append(make('div', { role: 'rowgroup', class: 'grid-head-group' }, this.head), this.body);
    element.addEventListener('scroll', () => this.draw(), { passive: true });
    element.addEventListener('keydown', (event) => this.key(event));
    this.body.addEventListener('click', (event) => this.click(event));
    new ResizeObserver(() => this.draw()).observe(element);
  }

  setRows(rows, sort, descending) {
    this.rows = rows;
    this.element.setAttribute('aria-rowcount', String(rows.length + 1));
    this.columns.forEach((column, i) => {
      const order = column.key === sort ? (descending ? 'descending' : 'ascending') : 'none';
      this.headers[i].setAttribute('aria-sort', order);
    });
    if (this.activeId !== null) {
      const at = rows[this.active] && rows[this.active].id === this.activeId ? this.active : rows.findIndex((row) => row.id === this.activeId);
      this.active = at;
    }
    this.draw();
  }

  rowHeight() {
    return parseFloat(getComputedStyle(this.element).getPropertyValue('--row-height')) || 36;
  }

  draw() {
    const height = this.rowHeight();
    const { scrollTop, clientHeight } = this.element;
    this.body.style.height = `${this.rows.length * height}px`;
    this.element.style.setProperty('--rows-height', `${this.rows.length * height + this.head.offsetHeight + 2}px`); // no emptier than need be
    const count = Math.min(this.rows.length, Math.ceil(clientHeight / height) + 2 * spare);
    const first = Math.max(0, Math.min(Math.floor(scrollTop / height) - spare, this.rows.length - count));
    while (this.pool.length < count) this.pool.push(this.newRow());
    while (this.pool.length > count + 4 * spare) this.pool.pop().remove();
    this.first = first;
    this.count = count;
    // A row of the table keeps its element while it stays in sight: which is why the place in the pool is a remainder.
    this.pool.forEach((element, place) => {
      const offset = (((place - first) % this.pool.length) + this.pool.length) % this.pool.length;
      if (offset < count) this.fillRow(element, first + offset, height);
      else element.hidden = true;
    });
    const shown = this.active >= first && this.active < first + count;
    if (shown) this.element.setAttribute('aria-activedescendant', `row-${this.active}`);
    else this.element.removeAttribute('aria-activedescendant');
  }

  newRow() {
    const cells = this.columns.map((column) => make('div', { role: 'gridcell', class: `cell ${column.class || ''}` }));
    const element = make('div', { class: 'grid-row', role: 'row' }, ...cells);
    element.cells = cells;
    this.body.append(element);
    return element;
  }

  fillRow(element, index, height) {
    const row = this.rows[index];
    element.hidden = false;
    element.style.transform = `translateY(${index * height}px)`;
    if (element.index !== index) {
      element.index = index;
      element.id = `row-${index}`;
      element.setAttribute('aria-rowindex', String(index + 2));
    }
    element.classList.toggle('odd', index % 2 === 1);
    element.setAttribute('aria-selected', String(index === this.active));
    this.columns.forEach((column, i) => column.fill(element.cells[i], row));
  }

  inSight() {
    return this.rows.slice(this.first, this.first + this.count);
  }

  setActive(index, scroll = true) {
    if (this.rows.length === 0) return;
    this.active = Math.max(0, Math.min(index, this.rows.length - 1));
    this.activeId = this.rows[this.active].id;
    if (scroll) this.reveal(this.active);
    this.draw();
  }

  reveal(index) {
    const height = this.rowHeight();
    const headHeight = this.head.offsetHeight;
    const top = index * height;
    const { scrollTop, clientHeight } = this.element;
    if (top < scrollTop) this.element.scrollTop = top;
    else if (top + height > scrollTop + clientHeight - headHeight) this.element.scrollTop = top + height - clientHeight + headHeight;
  }

  show(id) {
    const index = this.rows.findIndex((row) => row.id === id);
    if (index >= 0) this.setActive(index);
  }

  key(event) {
    if (event.target !== this.element || event.altKey || event.metaKey) return;
    const page = Math.max(1, Math.floor(this.element.clientHeight / this.rowHeight()) - 2);
    const last = this.rows.length - 1;
    const moves = { ArrowDown: this.active + 1, ArrowUp: this.active - 1, PageDown: this.active + page, PageUp: this.active - page, Home: 0, End: last };
    if (event.key in moves) this.setActive(moves[event.key]);
    else if ((event.key === 'Enter' || event.key === ' ') && this.rows[this.active]) this.on.open(this.rows[this.active]);
    else return;
    event.preventDefault();
  }

  click(event) {
    const element = event.target.closest('.grid-row');
    if (!element || !this.rows[element.index]) return;
    this.setActive(element.index, false);
    this.on.open(this.rows[element.index]);
  }
}

