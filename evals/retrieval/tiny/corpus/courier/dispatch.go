// Package courier gives each round to a driver.
package courier

import "sort"

// Driver is somebody with a van.
type Driver struct {
	Name     string
	Capacity int
	load     int
}

// Dispatcher hands parcels to the driver with the most room left.
type Dispatcher struct {
	drivers []*Driver
}

// Assign gives a parcel of this size to a driver; nil when no van has room.
func (d *Dispatcher) Assign(size int) *Driver {
	sort.Slice(d.drivers, func(i, j int) bool {
		return d.drivers[i].Capacity-d.drivers[i].load > d.drivers[j].Capacity-d.drivers[j].load
	})
	if len(d.drivers) == 0 || d.drivers[0].Capacity-d.drivers[0].load < size {
		return nil
	}
	d.drivers[0].load += size
	return d.drivers[0]
}
