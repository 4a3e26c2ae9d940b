/*
 * The files of web/ as they lie in the program. Made by embed_text.sh, served by page.c.
 */
#ifndef TEN_SERVER_PAGE_H
#define TEN_SERVER_PAGE_H

typedef struct ten_page_file {
    const char *name; /* "index.html"; NULL ends the table */
    const char *etag; /* of its content, with its quotes */
    const char *text;
} ten_page_file;

extern const ten_page_file ten_page_files[];

#endif
