/*
 * Large fleets on a simulated clock.
 */
#ifndef SIM_SCALE_H
#define SIM_SCALE_H

#include <stdbool.h>
#include <stdint.h>

/* `real` of the instances run the core, the others follow the plan. Faults need all of them to be real. False: a promise
 * was broken, or the fleet did not settle. */
bool sim_scale(uint32_t instances, uint32_t targets, uint32_t real, bool faults, uint64_t seed);

#endif
